"""How a `StandardAgent` talks: what it asks, what it takes, and what it does when something goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AgentStatus, CheckpointManager, IllegalTransition, InputField, InvalidArgument, StandardAgent
from tests.unit.agents.standard.samples import Approved, Booking, Fragile, Notes, said

# --- fields


async def test_the_first_message_starts_the_agent_and_answers_no_field():
    agent = Booking()
    result = await said(agent, "4")
    assert (result.status, result.raw_message) == (AgentStatus.WAITING_FOR_INPUT, "How many guests?")
    assert agent.collected_fields == {}


async def test_it_asks_for_one_field_after_the_other_and_then_does_its_work():
    agent = Booking()
    assert (await said(agent, "book", "4")).raw_message == "Which day?"
    result = await said(agent, "Friday")
    assert (result.status, result.raw_message) == (AgentStatus.COMPLETED, "Booked for 4 on Friday!")
    assert agent.collected_fields == {"guests": 4, "day": "Friday"}
    assert result.data == {"number": "B-4"}
    assert (result.agent_id, result.agent_type) == (agent.agent_id, "Booking")


async def test_an_optional_field_is_never_asked_for_and_has_its_default():
    agent = Booking()
    assert agent.wish == "none"
    agent.wish = "a quiet table"
    assert agent.collected_fields == {"wish": "a quiet table"}
    assert agent.required_fields == ["guests", "day"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [("many", "That is not a valid answer."), ("9", "We have 8 seats."), ("  ", "")],
)
async def test_an_answer_that_is_refused_is_asked_for_again_with_the_reason(answer, told):
    agent = Booking()
    result = await said(agent, "book", answer)
    assert result.status == AgentStatus.WAITING_FOR_INPUT
    assert result.raw_message == f"{told} How many guests?".strip()
    assert (await said(agent, "3")).raw_message == "Which day?"


async def test_a_validator_that_breaks_is_a_refused_answer_and_the_agent_stays():
    class Broken(StandardAgent):
        city = InputField("Where?", validator=lambda text: {}[text])

    agent = Broken()
    result = await said(agent, "go", "Rome")
    assert (result.status, result.raw_message) == (AgentStatus.WAITING_FOR_INPUT, "That can't be checked now. Where?")


@pytest.mark.parametrize(
    ("validator", "answer", "kept"),
    [
        (None, " Rome ", "Rome"),
        (str.isalpha, "Rome", "Rome"),
        (str.upper, "Rome", "ROME"),
        (lambda text: None, "Rome", "Rome"),
        (lambda text: [text], "Rome", ["Rome"]),
    ],
)
async def test_what_a_validator_returns_is_kept_and_true_or_none_keep_the_text(validator, answer, kept):
    cls = type("Trip", (StandardAgent,), {"city": InputField("Where?", validator=validator)})
    agent = cls()
    await said(agent, "go", answer)
    assert agent.city == kept


async def test_a_validator_that_says_false_refuses():
    class Trip(StandardAgent):
        city = InputField("Where?", validator=str.isalpha)

    assert (await said(Trip(), "go", "R2D2")).raw_message == "That is not a valid answer. Where?"


async def test_a_validator_may_be_async():
    async def known(text):
        await asyncio.sleep(0)
        return text.title()

    class Trip(StandardAgent):
        city = InputField("Where?", validator=known)

    agent = Trip()
    await said(agent, "go", "rome")
    assert agent.city == "Rome"


async def test_an_empty_answer_takes_the_default_of_a_required_field():
    class Trip(StandardAgent):
        city = InputField("Where?", default="home")

    agent = Trip()
    assert (await said(agent, "go", "")).status == AgentStatus.COMPLETED
    assert agent.collected_fields == {"city": "home"}


async def test_what_the_first_handler_sets_is_not_asked_for():
    class Clever(Booking):
        async def on_initializing(self, msg):
            self.guests = 2

    assert (await said(Clever(), "a table for two")).raw_message == "Which day?"


async def test_a_field_that_is_deleted_is_asked_for_again():
    agent = Booking()
    await said(agent, "book", "4")
    del agent.guests
    assert (await said(agent, "7")).raw_message == "Which day?"
    assert agent.guests == 7


async def test_a_subclass_inherits_the_fields_in_their_order():
    class More(Booking):
        name = InputField("Your name?")

    assert More().required_fields == ["guests", "day", "name"]


async def test_two_agents_share_no_field():
    first, second = Booking(), Booking()
    await said(first, "book", "4")
    assert second.collected_fields == {}


@pytest.mark.parametrize("name", ["status", "error", "reply", "user_id"])
def test_a_field_may_not_be_called_what_every_agent_has(name):
    with pytest.raises(InvalidArgument, match=f"a field {name}"):
        type("Trip", (StandardAgent,), {name: InputField("Where?")})


def test_triggers_are_a_tuple_and_a_single_text_is_refused():
    with pytest.raises(InvalidArgument, match="not a tuple") as error:
        type("Trip", (StandardAgent,), {"triggers": "book"})
    assert error.value.hint == "triggers = ('book',)"


# --- approval


@pytest.mark.parametrize("word", ["yes", "Y", "Ok!", "approve", "yes, please"])
async def test_after_a_yes_it_runs(word):
    agent = Approved()
    result = await said(agent, "book", "4", "Friday")
    assert (result.status, result.raw_message) == (AgentStatus.WAITING_FOR_APPROVAL, "4 on Friday?")
    assert (await said(agent, word)).status == AgentStatus.COMPLETED


async def test_after_a_no_it_is_cancelled():
    result = await said(Approved(), "book", "4", "Friday", "No.")
    assert result.status == AgentStatus.CANCELLED


async def test_what_is_neither_yes_nor_no_is_asked_again():
    result = await said(Approved(), "book", "4", "Friday", "how much is it?")
    assert (result.status, result.raw_message) == (AgentStatus.WAITING_FOR_APPROVAL, "4 on Friday?")


async def test_whether_it_needs_an_approval_may_be_an_attribute_or_async():
    class Always(Booking):
        requires_approval = True

    class Looks(Booking):
        async def requires_approval(self):
            return self.guests > 2

        async def get_approval_prompt(self):
            return "Really?"

    asked = await said(Always(), "book", "4", "Friday")
    assert asked.raw_message == "guests: 4, day: Friday. Shall I go on? (yes/no)"
    assert (await said(Looks(), "book", "4", "Friday")).raw_message == "Really?"
    assert (await said(Looks(), "book", "2", "Friday")).status == AgentStatus.COMPLETED


async def test_an_approval_is_asked_for_once_however_often_the_work_asks_back():
    class Asks(Approved):
        async def on_running(self, msg):
            if msg.content != "window":
                return self.make_result(status=AgentStatus.WAITING_FOR_INPUT, raw_message="Where?")
            return self.make_result(status=AgentStatus.COMPLETED, raw_message="ok")

    agent = Asks()
    assert (await said(agent, "book", "4", "Friday", "yes")).raw_message == "Where?"
    assert (await said(agent, "window")).status == AgentStatus.COMPLETED


# --- failures


async def test_a_handler_that_raises_makes_an_error_and_the_next_message_tries_again():
    agent = Fragile()
    agent.failures = 1
    result = await said(agent, "go")
    assert result.status == agent.status == AgentStatus.ERROR
    assert result.error == "LookupError: no table left"
    assert "no table left" in result.raw_message
    result = await said(agent, "retry")
    assert (result.status, result.raw_message, result.error) == (AgentStatus.COMPLETED, "done", None)
    assert agent.calls == [("go", 1), ("retry", 1)]


async def test_what_failed_before_the_work_is_tried_again_there():
    class Moody(Booking):
        moods = 0

        async def on_initializing(self, msg):
            self.moods += 1
            if self.moods == 1:
                raise OSError("not now")

    agent = Moody()
    assert (await said(agent, "book")).status == AgentStatus.ERROR
    assert (await said(agent, "again")).raw_message == "How many guests?"
    assert agent.moods == 2


async def test_an_agent_in_error_of_which_nothing_is_known_runs_again():
    agent = Fragile()
    agent.status = AgentStatus.ERROR
    assert (await said(agent, "retry")).status == AgentStatus.COMPLETED


async def test_a_message_to_a_running_agent_runs_it_again():
    agent = Fragile()
    agent.status = AgentStatus.RUNNING
    assert (await said(agent, "retry")).raw_message == "done"
    assert agent.calls == [("retry", 1)]


async def test_on_error_may_answer_and_its_own_failure_changes_nothing():
    class Kind(Fragile):
        failures = 1

        async def on_error(self, msg):
            return self.make_result(raw_message=f"Sorry: {self.error}")

    class Unkind(Fragile):
        failures = 1

        async def on_error(self, msg):
            raise ValueError("worse")

    assert (await said(Kind(), "go")).raw_message == "Sorry: LookupError: no table left"
    result = await said(Unkind(), "go")
    assert (result.status, result.error) == (AgentStatus.ERROR, "LookupError: no table left")


async def test_an_approval_that_raises_is_a_failure_like_any_other():
    class Odd(Booking):
        def requires_approval(self):
            raise OSError("who knows")

    result = await said(Odd(), "book", "4", "Friday")
    assert (result.status, result.error) == (AgentStatus.ERROR, "OSError: who knows")


@pytest.mark.parametrize("end", [AgentStatus.COMPLETED, AgentStatus.CANCELLED])
async def test_a_finished_agent_says_so_and_calls_nothing(end):
    agent = Fragile()
    agent.status = end
    result = await said(agent, "more")
    assert result.status == agent.status == end
    assert end.lower() in result.raw_message
    assert agent.calls == []


async def test_a_handler_that_returns_a_status_that_can_t_follow_is_an_error_that_names_both():
    class Backwards(StandardAgent):
        async def on_running(self, msg):
            return self.make_result(status=AgentStatus.INITIALIZING)

    result = await said(Backwards(), "go")
    assert result.status == AgentStatus.ERROR
    assert "RUNNING" in result.error
    assert "INITIALIZING" in result.error


async def test_a_handler_that_returns_something_else_has_failed():
    class Talks(StandardAgent):
        async def on_running(self, msg):
            return "done"

    result = await said(Talks(), "go")
    assert result.status == AgentStatus.ERROR
    assert "on_running returned 'done'" in result.error


async def test_a_status_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="DREAMING"):
        Booking().make_result(status="DREAMING")


# --- pause, resume, cancel


async def test_a_paused_agent_answers_and_goes_on_where_it_was():
    agent = Booking()
    await said(agent, "book", "4")
    assert (await agent.pause()).status == AgentStatus.PAUSED
    assert "paused" in (await said(agent, "Friday")).raw_message
    assert agent.collected_fields == {"guests": 4}
    result = await agent.resume()
    assert (result.status, result.raw_message) == (AgentStatus.WAITING_FOR_INPUT, "Which day?")
    assert (await said(agent, "Friday")).status == AgentStatus.COMPLETED


async def test_a_handler_may_pause_its_agent():
    class Tired(Fragile):
        async def on_running(self, msg):
            if not self.calls:
                self.calls.append(msg.content)
                return self.make_result(status=AgentStatus.PAUSED, raw_message="later")
            return None

    agent = Tired()
    assert (await said(agent, "go")).status == AgentStatus.PAUSED
    assert (await agent.resume()).status == AgentStatus.RUNNING
    assert (await said(agent, "now")).status == AgentStatus.COMPLETED


async def test_a_paused_agent_whose_handler_raises_stays_paused():
    class Rude(Booking):
        async def on_paused(self, msg):
            raise RuntimeError("go away")

    agent = Rude()
    await said(agent, "book")
    await agent.pause()
    result = await said(agent, "hello?")
    assert (result.status, result.error) == (AgentStatus.PAUSED, "RuntimeError: go away")
    assert (await agent.resume()).raw_message == "How many guests?"


async def test_a_cancelled_agent_stays_so():
    agent = Booking()
    await said(agent, "book")
    assert (await agent.cancel()).status == AgentStatus.CANCELLED
    with pytest.raises(IllegalTransition, match="CANCELLED and can't become PAUSED") as error:
        await agent.pause()
    assert (error.value.before, error.value.after) == (AgentStatus.CANCELLED, AgentStatus.PAUSED)
    assert error.value.agent_id == agent.agent_id


async def test_only_a_paused_agent_can_be_resumed():
    with pytest.raises(IllegalTransition, match="INITIALIZING, not PAUSED"):
        await Booking().resume()


async def test_messages_of_one_agent_are_handled_one_at_a_time():
    class Slow(Fragile):
        async def on_running(self, msg):
            self.calls.append(("begins", msg.content))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.calls.append(("ends", msg.content))
            return self.make_result()

    agent = Slow()
    agent.status = AgentStatus.RUNNING
    await asyncio.gather(said(agent, "a"), said(agent, "b"))
    assert agent.calls == [("begins", "a"), ("ends", "a"), ("begins", "b"), ("ends", "b")]


async def test_a_handler_that_calls_its_own_agent_is_told_so_instead_of_waiting_for_ever():
    class Selfish(StandardAgent):
        async def on_running(self, msg):
            await self.cancel()

    result = await said(Selfish(), "go")
    assert result.status == AgentStatus.ERROR
    assert "own handler" in result.error


# --- what is kept, and when


async def test_each_status_is_kept_before_code_of_the_agent_runs_in_it():
    agent = Approved()
    notes = Notes()
    agent.kept_by(notes)
    await said(agent, "book", "4", "Friday", "yes")
    assert notes.kept == [
        ("WAITING_FOR_INPUT", "done"),
        ("WAITING_FOR_INPUT", "done"),
        ("WAITING_FOR_APPROVAL", "done"),
        ("RUNNING", "begun"),
        ("COMPLETED", "done"),
    ]


async def test_a_message_is_kept_before_a_handler_of_the_agent_sees_it():
    class Own(Booking):
        async def on_waiting_for_input(self, msg):
            assert notes.kept[-1] == ("WAITING_FOR_INPUT", "begun")
            return await super().on_waiting_for_input(msg)

    agent, notes = Own(), Notes()
    agent.kept_by(notes)
    await said(agent, "book", "4")
    assert notes.kept == [("WAITING_FOR_INPUT", "done"), ("WAITING_FOR_INPUT", "begun"), ("WAITING_FOR_INPUT", "done")]


async def test_a_message_is_kept_before_an_async_validator_sees_it():
    async def looked_up(text):
        assert notes.kept[-1] == ("WAITING_FOR_INPUT", "begun")

    class Looks(StandardAgent):
        city = InputField("Where?", validator=looked_up)

    agent, notes = Looks(), Notes()
    agent.kept_by(notes)
    await said(agent, "go", "Rome")
    assert notes.kept[1] == ("WAITING_FOR_INPUT", "begun")


async def test_an_error_and_the_second_try_are_kept_as_statuses_of_their_own():
    agent, notes = Fragile(), Notes()
    agent.failures = 1
    agent.kept_by(notes)
    await said(agent, "go", "retry")
    assert notes.kept == [
        ("RUNNING", "begun"),
        ("ERROR", "done"),
        ("RUNNING", "begun"),
        ("COMPLETED", "done"),
    ]


async def test_a_status_that_is_passed_through_is_kept_as_well():
    class Odd(Booking):
        asked = 0

        def requires_approval(self):
            self.asked += 1
            if self.asked == 1:
                raise OSError("who knows")
            return False

    agent, notes = Odd(), Notes()
    await said(agent, "book", "4", "Friday")
    assert agent.status == AgentStatus.ERROR
    agent.kept_by(notes)
    await said(agent, "retry")
    assert notes.kept == [("WAITING_FOR_INPUT", "begun"), ("RUNNING", "begun"), ("COMPLETED", "done")]


async def test_a_handler_of_one_object_counts_as_code_of_the_agent():
    agent, notes = Booking(), Notes()

    async def greeted(msg):
        assert notes.kept == [("INITIALIZING", "begun")]

    agent.on_initializing = greeted
    agent.kept_by(notes)
    assert (await said(agent, "book")).raw_message == "How many guests?"


async def test_what_keeping_raises_is_no_failure_of_the_agent():
    class Full(Notes):
        async def keep(self, agent, message):
            raise OSError("disk full")

    agent = Fragile()
    agent.kept_by(Full())
    with pytest.raises(OSError, match="disk full"):
        await said(agent, "go")
    assert agent.calls == []


# --- checkpoints


async def test_restored_in_the_middle_it_asks_the_next_question_not_the_first():
    manager = CheckpointManager()
    agent = Booking("b", "ada")
    await said(agent, "book", "4")
    again = await manager.restore(await manager.save(agent))
    assert again is not agent
    assert (again.status, again.guests, again.missing_fields) == (AgentStatus.WAITING_FOR_INPUT, 4, ["day"])
    assert (await said(again, "Friday")).raw_message == "Booked for 4 on Friday!"


async def test_a_checkpoint_shows_what_was_collected_what_is_required_and_where_it_stands():
    manager = CheckpointManager()
    agent = Booking("b", "ada")
    await said(agent, "book", "4")
    checkpoint = await manager.load(await manager.save(agent))
    assert checkpoint.collected_fields == {"guests": 4}
    assert checkpoint.required_fields == ["guests", "day"]
    assert checkpoint.context_summary == "guests: 4; missing: day"
    assert (checkpoint.status, checkpoint.agent_type) == ("WAITING_FOR_INPUT", "Booking")
    agent.context_summary = "a table for four"
    assert (await manager.restore(await manager.save(agent))).context_summary == "a table for four"


async def test_restored_before_the_error_a_message_retries():
    manager = CheckpointManager()
    agent = Fragile("f", "ada")
    agent.failures = 1
    agent.status = AgentStatus.RUNNING
    before = await manager.save(agent)
    assert (await said(agent, "go")).status == AgentStatus.ERROR
    again = await manager.restore(before)
    assert (again.status, again.calls) == (AgentStatus.RUNNING, [])
    assert (await said(again, "retry")).status == AgentStatus.COMPLETED


async def test_everything_that_an_agent_is_survives_a_checkpoint():
    manager = CheckpointManager()
    agent = Approved("a", "ada")
    await said(agent, "book", "4", "Friday", "yes")
    again = await manager.restore(await manager.save(agent))
    assert (again.number, again.approved, again.status) == ("B-4", True, AgentStatus.COMPLETED)
    paused = Booking("p", "ada")
    await said(paused, "book")
    await paused.pause()
    assert (await (await manager.restore(await manager.save(paused))).resume()).raw_message == "How many guests?"


async def test_a_subclass_that_does_not_call_super_loses_no_field():
    class Counting(Booking):
        count = 0

        def checkpoint_state(self):
            return {"count": self.count}

        def restore_state(self, state):
            assert self.guests == 4
            assert state == {"count": 3}
            self.count = state["count"]

    manager = CheckpointManager()
    agent = Counting("c", "ada")
    await said(agent, "book", "4")
    agent.count = 3
    again = await manager.restore(await manager.save(agent))
    assert (again.count, again.guests) == (3, 4)


async def test_the_methods_of_the_state_may_be_async_and_may_call_super():
    class Counting(Booking):
        count = 0

        async def checkpoint_state(self):
            return {**super().checkpoint_state(), "count": self.count}

        async def restore_state(self, state):
            super().restore_state(state)
            self.count = state["count"]

    manager = CheckpointManager()
    agent = Counting("c", "ada")
    await said(agent, "book", "4")
    agent.count = 3
    again = await manager.restore(await manager.save(agent))
    assert (again.count, again.guests) == (3, 4)


async def test_a_class_that_was_imported_is_known_to_every_manager_and_the_last_of_a_name_counts():
    class Passing(StandardAgent):
        pass

    checkpoint_id = await (manager := CheckpointManager()).save(Passing("p", "ada"))
    assert type(await manager.restore(checkpoint_id)) is Passing
    first = Passing

    class Passing(StandardAgent):
        pass

    assert type(await manager.restore(checkpoint_id)) is Passing is not first
    manager.register(first)
    assert type(await manager.restore(checkpoint_id)) is first
