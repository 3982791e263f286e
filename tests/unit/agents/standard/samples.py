"""Agents for the tests of `StandardAgent`, and a keeper that only writes down what it is asked to keep."""

from __future__ import annotations

from holdfast import AgentStatus, InputField, Message, OutputField, StandardAgent


def seats(text):
    number = int(text)
    if number > 8:
        raise ValueError("We have 8 seats")
    return number


class Booking(StandardAgent):
    """Two questions and the work, without an approval."""

    triggers = ("book", "reserve")
    guests = InputField("How many guests?", "how many people come", seats)
    day = InputField("Which day?")
    wish = InputField("Any wish?", required=False, default="none")
    number = OutputField("the number of the booking")

    async def on_running(self, msg):
        self.number = f"B-{self.guests}"
        return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"Booked for {self.guests} on {self.day}!")


class Approved(Booking):
    """The same, with an approval."""

    def requires_approval(self):
        return True

    def get_approval_prompt(self):
        return f"{self.guests} on {self.day}?"


class Fragile(StandardAgent):
    """Fails as often as it is told to."""

    failures = 0

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.calls = []

    def checkpoint_state(self):
        return {"calls": self.calls}

    def restore_state(self, state):
        self.calls = state["calls"]

    async def on_running(self, msg):
        self.calls.append((msg.content, msg.attempt))
        if len(self.calls) <= self.failures:
            raise LookupError("no table left")
        return self.make_result(status=AgentStatus.COMPLETED, raw_message="done")


class Notes:
    """A keeper that writes down the status in which it was told to keep an agent, and whether that was the end."""

    def __init__(self):
        self.kept = []

    async def keep(self, agent, message):
        self.kept.append((str(agent.status), "begun"))

    async def done(self, agent, message, result):
        self.kept.append((str(agent.status), "done"))


async def said(agent, *texts):
    """The answer to the last of these messages."""
    for text in texts:
        result = await agent.reply(Message(content=text, role="user"))
    return result
