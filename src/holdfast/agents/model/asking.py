"""One question to a model: asked again while what its provider says may pass, streamed if somebody listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.model.limits import ModelLimits
from holdfast.agents.model.result import TextDelta
from holdfast.durable.calls import call
from holdfast.errors import ContextTooLong, HoldfastError, InvalidArgument, MissingExtra, ModelFailed

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger("holdfast")

OnText = Callable[[TextDelta], Any]
_SAID_MAX: Final = 500


class CutShort(HoldfastError):
    """A provider's stream ended before the answer did."""


class Asker:
    """Asks one model, given by name or as an object of pydantic-ai's."""

    def __init__(
        self,
        model: Model | str,
        *,
        agent_id: str,
        settings: ModelSettings | None,
        limits: ModelLimits,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._given = model
        self._agent_id = agent_id
        self._settings = settings
        self._limits = limits
        self._sleep = sleep
        self._model: Model | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While this lasts, the model's connections are open. What is wrong with its name or key is said here."""
        if self._model is None:
            self._model = await asyncio.to_thread(_inferred, self._given)  # it reads a hundred files the first time
        async with self._model:
            yield

    async def ask(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters, on_text: OnText | None
    ) -> ModelResponse:
        """The model's answer, whole. Raises ModelFailed or ContextTooLong."""
        attempt = 1
        while True:
            try:
                return await self._attempt(messages, parameters, on_text, attempt)
            except Exception as error:
                if attempt >= self._limits.attempts_max or not _may_pass(error):
                    raise self._failed(error, attempt) from error
                seconds = self._wait_seconds(error, attempt)
                log.warning("The model of agent %s failed, it is asked again in %g s: %s",
                            self._agent_id, seconds, error)  # fmt: skip
            await self._sleep(seconds)
            attempt += 1

    async def _attempt(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters, on_text: OnText | None, attempt: int
    ) -> ModelResponse:
        from pydantic_ai import direct

        assert self._model is not None  # noqa: S101 - opened before
        options: dict[str, Any] = {"model_settings": self._settings, "model_request_parameters": parameters}
        if on_text is None:
            response = await direct.model_request(self._model, messages, **options)
        else:
            async with direct.model_request_stream(self._model, messages, **options) as stream:
                async for event in stream:
                    if text := _text_of(event):
                        await _tell(on_text, TextDelta(text=text, attempt=attempt))
                response = stream.get()
        if response.state != "complete":
            raise CutShort(f"The answer of {response.model_name} is {response.state}")
        return response

    def _wait_seconds(self, error: Exception, attempt: int) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        seconds = self._limits.wait_seconds * 2.0 ** (attempt - 1) if asked is None else asked
        return min(seconds, self._limits.wait_seconds_max)

    def _failed(self, error: Exception, attempts: int) -> HoldfastError:
        from pydantic_ai import exceptions

        cls = ContextTooLong if isinstance(error, exceptions.ModelContextWindowExceededError) else ModelFailed
        times = "" if attempts == 1 else f" {attempts} times"
        return cls(
            f"The model of agent {self._agent_id} failed{times}: {type(error).__name__}: {str(error)[:_SAID_MAX]}",
            agent_id=self._agent_id,
        )


def _inferred(model: Model | str) -> Model:
    try:
        from pydantic_ai import direct  # noqa: F401 - imported here, on a thread, because it takes its time
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise MissingExtra(
            "ModelAgent needs pydantic-ai, which is not installed", hint="pip install 'holdfast[models]'"
        ) from error
    try:
        return infer_model(model)
    except ImportError as error:
        raise MissingExtra(f"The model {model} needs a package that is not installed: {error}") from error
    except (UserError, ValueError) as error:
        raise InvalidArgument(f"There is no model {model!r}: {error}") from error


def _may_pass(error: Exception) -> bool:
    """Whether the same request may succeed when it is made again."""
    from pydantic_ai import exceptions

    passing = (
        CutShort,
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
        exceptions.ModelRequestTimeout,
        exceptions.UnexpectedModelBehavior,
    )
    return isinstance(error, passing)


def _text_of(event: Any) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


async def _tell(on_text: OnText, delta: TextDelta) -> None:
    try:
        await call(on_text, delta)
    except Exception:
        log.exception("Whoever listens to an answer's text failed")
