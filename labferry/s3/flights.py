"""How are many requests under way at once in one thread?

Threads that read, hash and send small files spend more time on handing Python's lock to each other
than on the files. Here one thread begins a request while others wait for their answers; the next
thing to send is asked for when there is room for it.
"""

from collections.abc import Callable, Iterable, Iterator
from select import EPOLLIN, EPOLLOUT, POLLIN, epoll
from socket import socket
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from labferry.s3.http_answer import HttpAnswer
from labferry.s3.wire import Request, Waiting

#: The longest time until it is seen that an answer is late.
_TICK_S = 1.0

T = TypeVar("T")
Outcome = tuple[T, HttpAnswer | Exception]


class _Flight(NamedTuple, Generic[T]):
    item: T
    request: Request
    late_s: float


def fly(
    items: Iterable[T], request: Callable[[T], Request], room: Callable[[], int]
) -> Iterator[Outcome[T]]:
    """Make the request of each item, up to `room` at a time; yield what came of them as it comes.

    Closing the iterator closes the connections of what is under way.
    """
    flights, source, is_more = _Flights[T](), iter(items), True
    try:
        while True:
            while is_more and len(flights) < max(room(), 1):
                try:
                    item = next(source)
                except StopIteration:
                    is_more = False
                else:
                    yield from flights.begin(item, request)
            if not flights and not is_more:
                return
            yield from flights.landed()
    finally:
        flights.close()


class _Flights(Generic[T]):
    """The requests of one thread that wait for their sockets."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Flight[T]] = {}
        self._epoll = epoll()
        #: The sockets that are looked at, and for what; a number may be another socket's by now.
        self._watched: dict[int, tuple[socket, int]] = {}
        self._looks_s = monotonic() + _TICK_S

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, item: T, request: Callable[[T], Request]) -> Iterator[Outcome[T]]:
        """Begin a request; yield what came of it if that is known already."""
        try:
            begun = request(item)
        except Exception as error:  # noqa: BLE001  it is this item's outcome
            yield item, error
            return
        yield from self._go_on(item, begun)

    def landed(self) -> Iterator[Outcome[T]]:
        """Wait for some, and yield what came of those that are over."""
        for number, _ in self._epoll.poll(_TICK_S):
            flight = self._waiting.pop(number, None)
            if flight is None:  # an idle connection that the server closes
                self._unwatch(number)
            else:
                yield from self._go_on(flight.item, flight.request)
        if monotonic() >= self._looks_s:
            yield from self._expire()

    def close(self) -> None:
        """Give up what is under way."""
        for flight in self._waiting.values():
            flight.request.close()
        self._epoll.close()

    def _go_on(
        self, item: T, request: Request, error: Exception | None = None
    ) -> Iterator[Outcome[T]]:
        try:
            waiting = request.throw(error) if error else next(request)
        except StopIteration as end:
            yield item, end.value
        except Exception as failure:  # noqa: BLE001  it is this item's outcome
            yield item, failure
        else:
            self._watch(waiting)
            late_s = monotonic() + waiting.timeout_s
            self._waiting[waiting.socket.fileno()] = _Flight(item, request, late_s)

    def _watch(self, waiting: Waiting) -> None:
        number = waiting.socket.fileno()
        event = EPOLLIN if waiting.event == POLLIN else EPOLLOUT
        known, known_event = self._watched.get(number, (None, 0))
        if known is None:
            self._epoll.register(number, event)
        elif known is not waiting.socket:
            self._watch_anew(number, event)
        elif known_event != event:
            self._epoll.modify(number, event)
        self._watched[number] = waiting.socket, event

    def _watch_anew(self, number: int, event: int) -> None:
        """Look at a new socket, or at the old one now that it is wrapped in TLS."""
        try:
            self._epoll.register(number, event)
        except FileExistsError:
            self._epoll.modify(number, event)

    def _unwatch(self, number: int) -> None:
        if self._watched.pop(number, None):
            self._epoll.unregister(number)

    def _expire(self) -> Iterator[Outcome[T]]:
        """End those that wait for too long; not what came while outcomes were made use of."""
        now_s = monotonic()
        self._looks_s = now_s + _TICK_S
        came = {number for number, _ in self._epoll.poll(0)}
        for number, flight in list(self._waiting.items()):
            if flight.late_s < now_s and number not in came:
                del self._waiting[number]
                yield from self._go_on(flight.item, flight.request, TimeoutError("no answer"))
