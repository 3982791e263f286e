"""Which agent gets a message, and what its sender is told."""

from __future__ import annotations

import functools

import pytest

from holdfast import (
    AgentStatus,
    CheckpointManager,
    Closed,
    InMemoryCheckpointStorage,
    InvalidArgument,
    Message,
    Orchestrator,
    StandardAgent,
    WrongOwner,
)
from tests.unit.agents.orchestrator.samples import Approved, Booking, Weather, started


async def answers(orchestrator, user_id, *texts):
    return [(await orchestrator.handle_message(user_id, text)).raw_message for text in texts]


async def test_a_message_starts_an_agent_and_the_next_ones_go_to_it(any_storage):
    orchestrator = started(any_storage)
    assert await answers(orchestrator, "ada", "book a table", "4", "Friday") == [
        "How many guests?",
        "Which day?",
        "Booked for 4 on Friday!",
    ]


async def test_after_the_end_of_one_agent_a_message_starts_another(storage):
    orchestrator = started(storage)
    first = await orchestrator.handle_message("ada", "how is the weather?")
    second = await orchestrator.handle_message("ada", "reserve a table")
    assert (first.agent_type, second.agent_type) == ("Weather", "Booking")
    assert await orchestrator.active_agents("ada") != []


async def test_users_never_see_each_other_s_agents(any_storage):
    orchestrator = started(any_storage)
    await answers(orchestrator, "ada", "book", "4")
    assert await answers(orchestrator, "bob", "book") == ["How many guests?"]
    assert [agent.user_id for agent in await orchestrator.active_agents("bob")] == ["bob"]
    assert await answers(orchestrator, "ada", "Friday") == ["Booked for 4 on Friday!"]
    assert await orchestrator.active_agents("eve") == []


async def test_a_message_that_no_class_accepts_is_answered_and_starts_nothing(storage):
    orchestrator = started(storage)
    result = await orchestrator.handle_message("ada", "sing a song")
    assert (result.status, result.agent_id) == (AgentStatus.ERROR, None)
    assert "Booking, Weather" in result.raw_message
    assert await storage.agents() == []


async def test_a_class_without_triggers_accepts_any_message_and_the_first_listed_wins(storage):
    class Anything(StandardAgent):
        async def on_running(self, msg):
            return self.make_result(status=AgentStatus.COMPLETED, raw_message="whatever")

    first = await started(storage, Booking, Anything).handle_message("ada", "book")
    assert first.agent_type == "Booking"
    assert (await started(storage, Anything, Booking).handle_message("bob", "book")).agent_type == "Anything"
    assert (await started(storage, Booking, Anything).handle_message("eve", "sing")).raw_message == "whatever"


async def test_a_trigger_is_a_whole_word_in_any_case():
    accepts = [Booking.accepts(Message(text)) for text in ("BOOK it", "please reserve", "booking", "a notebook")]
    assert accepts == [True, True, False, False]


async def test_a_class_may_decide_itself_what_it_accepts(storage):
    class Sums(Weather):
        @classmethod
        def accepts(cls, message):
            return "+" in message.text

    assert (await started(storage, Booking, Sums).handle_message("ada", "1 + 1")).agent_type == "Sums"


async def test_a_paused_agent_is_asked_last(storage):
    orchestrator = started(storage)
    await answers(orchestrator, "ada", "book")
    [paused] = await orchestrator.active_agents("ada")
    await paused.pause()
    assert "paused" in (await answers(orchestrator, "ada", "hello"))[0]
    assert (await storage.list_by_agent(paused.agent_id, 1, 0))[0].status == "PAUSED"

    class Both(Orchestrator):
        async def route_message(self, user_id, message, context):
            if message.text == "new":
                return Booking
            return await super().route_message(user_id, message, context)

    orchestrator = Both([Booking], CheckpointManager(storage))
    assert await answers(orchestrator, "ada", "new", "4") == ["How many guests?", "Which day?"]
    assert [agent.status for agent in await orchestrator.active_agents("ada")] == ["WAITING_FOR_INPUT", "PAUSED"]


async def test_an_agent_that_its_owner_cancelled_gets_no_message_any_more(storage):
    orchestrator = started(storage)
    await answers(orchestrator, "ada", "book")
    [agent] = await orchestrator.active_agents("ada")
    await agent.cancel()
    assert await orchestrator.active_agents("ada") == []
    assert (await orchestrator.handle_message("ada", "weather")).raw_message == "sunny"
    assert (await storage.list_by_agent(agent.agent_id, 1, 0))[0].status == "CANCELLED"


# --- what can be overridden


async def test_each_step_can_be_overridden(storage):
    class Own(Orchestrator):
        async def prepare_context(self, user_id, message):
            return {"name": user_id.title()}

        async def should_process(self, message, context):
            return message.text != "spam"

        async def route_message(self, user_id, message, context):
            assert context["name"] == "Ada"
            return "Greeting"

        async def post_process(self, result, context):
            return result.evolve(raw_message=f"{result.raw_message} Bye, {context['name']}.")

    class Greeting(StandardAgent):
        async def on_running(self, msg):
            return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"Hello, {msg.context['name']}!")

    orchestrator = Own([Booking, Greeting], CheckpointManager(storage))
    assert await answers(orchestrator, "ada", "hi") == ["Hello, Ada! Bye, Ada."]
    declined = await orchestrator.handle_message("ada", "spam")
    assert (declined.status, declined.agent_id) == (AgentStatus.CANCELLED, None)
    assert len(await storage.agents()) == 1


async def test_a_failing_post_process_does_not_hide_that_the_message_was_handled(storage):
    class Broken(Orchestrator):
        async def post_process(self, result, context):
            raise OSError("no network")

    orchestrator = Broken([Booking], CheckpointManager(storage))
    assert await answers(orchestrator, "ada", "book") == ["How many guests?"]


async def test_a_failing_prepare_context_changes_nothing(storage):
    class Broken(Orchestrator):
        async def prepare_context(self, user_id, message):
            raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        await Broken([Booking], CheckpointManager(storage)).handle_message("ada", "book")
    assert await storage.agents() == []


async def test_a_route_to_what_is_not_there_is_refused_by_name(storage):
    class Lost(Orchestrator):
        async def route_message(self, user_id, message, context):
            return "Nobody" if message.text == "name" else Booking("x", user_id)

    orchestrator = Lost([Booking], CheckpointManager(storage))
    with pytest.raises(InvalidArgument, match="no agent Nobody"):
        await orchestrator.handle_message("ada", "name")
    with pytest.raises(InvalidArgument, match="Agent x is not active for ada"):
        await orchestrator.handle_message("ada", "agent")


# --- classes and factories


@pytest.mark.parametrize("shape", ["pairs", "mapping"])
async def test_a_factory_makes_new_agents_and_those_that_are_restored(any_storage, shape):
    class Priced(Booking):
        def __init__(self, *, price, **ids):
            super().__init__(**ids)
            self.price = price

        async def on_running(self, msg):
            return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"{self.price * self.guests} euros")

    factory = functools.partial(Priced, price=7)
    agents = [("Priced", factory)] if shape == "pairs" else {"Priced": factory}
    assert await answers(Orchestrator(agents, CheckpointManager(any_storage)), "ada", "book", "4") == [
        "How many guests?",
        "Which day?",
    ]
    assert await answers(Orchestrator(agents, CheckpointManager(any_storage)), "ada", "Friday") == ["28 euros"]


async def test_a_factory_has_the_triggers_of_its_class(storage):
    orchestrator = Orchestrator({"Weather": functools.partial(Weather)})
    assert (await orchestrator.handle_message("ada", "book")).agent_id is None
    assert (await orchestrator.handle_message("ada", "weather?")).raw_message == "sunny"


async def test_a_factory_may_be_async():
    async def factory(agent_id, user_id):
        return Weather(agent_id, user_id)

    assert await answers(Orchestrator({"Weather": factory}), "ada", "weather") == ["sunny"]


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        ([], "at least one"),
        ([Booking, Booking], "listed twice"),
        ([lambda agent_id, user_id: None], "is not a class"),
        ([dict], "no StandardAgent"),
        ({"booking": Booking}, "goes by its own name"),
        ({"Booking": 3}, "neither a class nor a factory"),
    ],
)
def test_a_list_of_agents_that_can_t_be_meant_is_refused(agents, told):
    with pytest.raises(InvalidArgument, match=told):
        Orchestrator(agents)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (functools.partial(Weather), "made a Weather"),
        (lambda agent_id, user_id: Booking("mine", user_id), "ids of its own"),
    ],
)
async def test_a_factory_that_makes_something_else_is_refused(factory, told):
    with pytest.raises(InvalidArgument, match=told):
        await Orchestrator({"Booking": factory}).handle_message("ada", "book")


# --- arguments


@pytest.mark.parametrize("user_id", ["", None, 3])
async def test_a_user_without_a_name_is_refused(user_id):
    with pytest.raises(InvalidArgument, match="user_id"):
        await Orchestrator([Booking]).handle_message(user_id, "book")


async def test_a_manager_of_one_user_serves_no_other(storage):
    orchestrator = Orchestrator([Booking], CheckpointManager(storage, user_id="ada"))
    assert await answers(orchestrator, "ada", "book") == ["How many guests?"]
    with pytest.raises(WrongOwner):
        await orchestrator.handle_message("bob", "book")


async def test_a_closed_orchestrator_takes_no_message():
    async with Orchestrator([Booking]) as orchestrator:
        await orchestrator.handle_message("ada", "book")
    await orchestrator.close()
    with pytest.raises(Closed):
        await orchestrator.handle_message("ada", "4")


# --- what is kept


async def test_every_change_has_a_checkpoint_with_the_message_that_made_it(storage):
    orchestrator = started(storage, Approved)
    results = [await orchestrator.handle_message("ada", text) for text in ("book", "4", "Friday", "yes")]
    listed = list(reversed(await storage.list_by_user("ada", 50, 0)))
    assert [(one.status, one.kind, one.metadata["message"]) for one in listed] == [
        ("WAITING_FOR_INPUT", "auto", results[0].message_id),
        ("WAITING_FOR_INPUT", "auto", results[1].message_id),
        ("WAITING_FOR_APPROVAL", "auto", results[2].message_id),
        ("RUNNING", "auto", results[3].message_id),
        ("COMPLETED", "auto", results[3].message_id),
    ]


async def test_the_history_has_what_was_said(storage):
    orchestrator = started(storage)
    await orchestrator.handle_message("ada", "book")
    await orchestrator.handle_message("ada", Message("4", role="waiter"))
    [info] = await storage.agents()
    said = [(record.type, record.content) for record in await storage.read(info.agent_id) if not record.internal]
    assert said == [
        ("user_message", "book"),
        ("assistant_message", "How many guests?"),
        ("user_message", "4"),
        ("assistant_message", "Which day?"),
    ]
    assert [record.origin for record in await storage.read(info.agent_id) if record.type == "user_message"] == [
        None,
        "waiter",
    ]


async def test_without_auto_checkpoint_the_program_saves(storage):
    orchestrator = started(storage, auto_checkpoint=False)
    await answers(orchestrator, "ada", "book", "4")
    assert await storage.agents() == []
    [agent] = await orchestrator.active_agents("ada")
    await agent.checkpoint_manager.save(agent)
    assert await answers(started(storage, auto_checkpoint=False), "ada", "Friday") == ["Booked for 4 on Friday!"]


async def test_without_a_manager_agents_are_kept_in_memory():
    orchestrator = Orchestrator(agents=[Booking])
    await answers(orchestrator, "ada", "book")
    assert isinstance(orchestrator.checkpoint_manager.storage, InMemoryCheckpointStorage)
    assert len(await orchestrator.checkpoint_manager.list_by_user("ada")) == 1
