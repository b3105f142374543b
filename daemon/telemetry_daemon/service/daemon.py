"""The running daemon: polls, serves, reloads, reports to systemd, and ends in time."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.inputs import GIVEN_HEADER, READS_HEADER, ConfigError
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.config.settings import Settings, settings_hash
from telemetry_daemon.polling.clock import ClockGuard
from telemetry_daemon.polling.node_sources import Node
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.readers import device_nodes
from telemetry_daemon.readers.device_nodes import NodeWatch
from telemetry_daemon.readers.pci import this_machine
from telemetry_daemon.recordings.last_minutes import CaptureFeed
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_socket import ControlServer
from telemetry_daemon.service import systemd
from telemetry_daemon.service.black_box import BlackBox
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.service.local_site import LocalSite
from telemetry_daemon.service.memory import give_free_pages_back
from telemetry_daemon.service.operators import MaintenanceDesk, Operators
from telemetry_daemon.service.other_names import OtherNames
from telemetry_daemon.service.textfile_job import TextfileJob
from telemetry_daemon.site.process_metrics import ProcessMetrics
from telemetry_daemon.site.routes import Site
from telemetry_daemon.state import devices_file, maintenance
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.devices_file import Remembered
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.maintenance import MaintenanceBook
from telemetry_daemon.state.ranks import CHECK_SECONDS, RankWatch
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.times import Clock
from telemetry_daemon.version import __version__
from telemetry_daemon.web.addresses import WebError, local_socket_in
from telemetry_daemon.web.clients import RateLimits
from telemetry_daemon.web.server.web_server import WebServer
from telemetry_exporters.prometheus.families import NO_OWNERS, OwnerSeries
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.past import SLOT_SECONDS

if TYPE_CHECKING:  # imported if owners are reported
    from telemetry_daemon.service.owners import Owners

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 10.0
# The delay until an owner that has appeared or ended is written.
LEDGER_SECONDS = 1.0
# The longest duration of a stop, even if a tool hangs.
LONGEST_END_SECONDS = 2.5
# Added only if a card has just had an event. The sum is less than the unit's TimeoutStopSec.
_LAST_FLIGHT_SECONDS = 6.0
_WITHOUT_CONTROL = (
    "no control socket: `telemetry forget`, `release`, `resume` and `maintenance` will not reach this daemon"
)
_WITHOUT_LOCAL = "no local socket: `telemetry top` and `snapshot` reach this daemon at its listen address only"
# These settings keep their value from the start.
_FIXED = (
    "state.directory",
    "state.runtime_directory",
    "parsers.paths",
    "export.textfile.path",
    "export.textfile.interval",
    "web.telemetry_path",
    "attribution",
    "steps",
)


@dataclass(frozen=True, slots=True)
class Start:
    """The arguments of a service. `reload_settings` reads the configuration again; `given` returns a hash of its inputs."""

    settings: Settings
    reload_settings: Callable[[], Settings]
    remembers_devices: bool = True
    given: Callable[[], str] = str
    tap: CaptureFeed = field(default_factory=CaptureFeed)


class Service:
    """One daemon from start to end."""

    def __init__(self, start: Start, node: Node, clock: Clock) -> None:
        self._start = start
        self._settings = start.settings
        self._given = start.given()
        self._node = node
        self._memory, remembered = self._device_memory(clock.wall())
        self._known_since = remembered.since
        self._history = History(node.clock)
        self._owners = self._owners_of(node)
        book = MaintenanceBook(self._maintenance_path(), clock)
        self._black_box = BlackBox(start.tap, clock, self._round, lambda: book.now().is_on)
        self._store = self._store_of(node, remembered)
        self._daemon_metrics = DaemonMetrics(self._store)
        self._maintenance = MaintenanceDesk(book, self._store)
        self._poller = Poller(self._store, clock)
        self._ranks = RankWatch(self._settings.ranks, self._store.facts.set_ranks)
        self._guard = ClockGuard(lambda _: self._poller.realign(), monotonic=clock.monotonic, wall=clock.wall)
        self._metrics = {metric.key: metric for metric in node.metrics()}
        self._other_names = OtherNames(
            self._settings, self._daemon_metrics.set_compat, reports_owners=self._owners is not None
        )
        self._site = self._site_of(clock)
        textfile, of_owners = self._settings.export.textfile.path, _owner_series(self._settings.attribution)
        self._textfile = TextfileJob(textfile, self._store.snapshot, self._metrics, of_owners)
        self._rate_limits = RateLimits()
        self._web = self._web_server()
        self._control = self._control_server(node)
        runtime = self._settings.state.runtime_directory
        self._local_site = LocalSite(local_socket_in(runtime), self._site.respond, self._reads)
        self._node_watch = NodeWatch(Path(runtime), clock.monotonic)
        self._status = exits.OK
        self._stop = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._reload_waits = False

    def _device_memory(self, now: float) -> tuple[devices_file.DeviceMemory | None, Remembered]:
        if not self._start.remembers_devices:
            return None, Remembered(since=now)
        memory = devices_file.DeviceMemory(devices_file.path_in(self._settings.state.directory), now)
        return memory, memory.remembered

    def _maintenance_path(self) -> Path | None:
        return maintenance.path_in(self._settings.state.directory) if self._start.remembers_devices else None

    def _store_of(self, node: Node, remembered: Remembered) -> Store:
        watch = self._black_box.watch if self._start.remembers_devices else None
        ledger, attribution = (self._owners.ledger, self._owners.attribution) if self._owners else (None, None)
        accumulator = Accumulator(Events(this_machine(), remembered.events), self._history, ledger, watch)
        return Store(platform.node(), node.clock, remembered.devices, accumulator, node.recorded, attribution)

    def _site_of(self, clock: Clock) -> Site:
        return Site(
            self._store.snapshot,
            self._store.readiness,
            ProcessMetrics().render,
            telemetry_path=self._settings.web.telemetry_path,
            extra=self._metrics,
            history=self._history,
            instance=f"{int(clock.wall() * 1000):x}",
            of_owners=_owner_series(self._settings.attribution),
            peer_pages=self._other_names.pages,
            flights=self._black_box.flights,
            read_counters=self._poller.read_counters,
        )

    def _web_server(self) -> WebServer:
        web, answer, limits = self._settings.web, self._site.respond, self._rate_limits
        return WebServer(answer, web.listen_address, web.config_file, allowed_hosts=web.allowed_hosts, limits=limits)

    def _control_server(self, node: Node) -> ControlServer:
        operators = Operators(self._store, self._poller, self._source, self._metrics, self._remember)
        return ControlServer(
            control.path_in(self._settings.state.runtime_directory),
            {**operators.verbs, **self._maintenance.verbs, **self._black_box.verbs, **node.verbs()},
        )

    def _owners_of(self, node: Node) -> Owners | None:
        if not self._settings.attribution.enabled and node.recorded is None:
            return None
        from telemetry_daemon.service.owners import Owners  # imported only if needed

        settings, remembers = self._settings, self._start.remembers_devices
        return Owners(settings.attribution, settings.state.directory if remembers else None, node.clock)

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit status. Raises WebError if an address cannot be opened."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):  # a client that sees the open port may already send the signal
            loop.add_signal_handler(number, self._stop.set)
        self._site.stream_on(loop)
        self._store.set_change_callback(self._site.snapshot_changed)
        await self._web.start()
        await self._other_names.serve(self._settings, self._site.respond, self._rate_limits)
        self._reload_by_signal()
        await self._start_local(self._control, _WITHOUT_CONTROL)
        await self._start_local(self._local_site, _WITHOUT_LOCAL)
        self._set_daemon_metrics()
        self._configure_black_box()
        sources = self._node.sources(self._settings)
        self._node.play(self._store, self._history, sources)
        self._poller.start(sources)
        self._poller.run_every("history", SLOT_SECONDS, partial(self._history.end_slots, self._store.snapshot))
        self._poller.run_every("housekeeping", HOUSEKEEPING_SECONDS, self._housekeeping)
        self._poller.run_every("rank table", CHECK_SECONDS, self._ranks.check)
        self._watch_nodes()
        if self._owners is not None:
            self._poller.run_every("ledger", LEDGER_SECONDS, partial(self._owners.keep, self._store))
        if self._settings.attribution.enabled and self._start.remembers_devices:
            from telemetry_daemon.service.owners import LOOK_SECONDS as LOOK_FOR_JOBS_SECONDS
            from telemetry_daemon.service.owners import JobFolder

            folder = JobFolder(self._settings.attribution.job_directory, self._poller.poll_now)
            self._poller.run_every("job folder", LOOK_FOR_JOBS_SECONDS, folder.look)
        if self._textfile.is_configured:
            self._poller.run_every("textfile", self._settings.export.textfile.interval, self._textfile.run)
        self._guard.start()
        addresses = ", ".join(self._web.addresses)
        logger.info("serving", extra={"version": __version__, "address": addresses})
        systemd.ready(f"serving on {addresses}")
        try:
            await self._serve_until_stopped()
        finally:
            await self._end()
        return self._status

    async def _serve_until_stopped(self) -> None:
        """Serve until the stop event, or raise the error that ended the serving before."""
        stop = asyncio.create_task(self._stop.wait())
        serving = [asyncio.create_task(self._web.serve_forever())]
        watchdog = systemd.watchdog_interval()
        if watchdog is not None:
            serving.append(asyncio.create_task(self._feed_watchdog(watchdog)))
        await asyncio.wait([stop, *serving], return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, *serving):
            if task.done():
                task.result()
            task.cancel()

    async def _end(self) -> None:
        logger.info("stopping")
        systemd.stopping()
        last_moment = threading.Timer(LONGEST_END_SECONDS, self._leave_unfinished)
        last_moment.daemon = True
        last_moment.start()
        await self._control.close()
        await asyncio.gather(self._local_site.close(), self._web.close(), self._other_names.close())
        self._guard.stop()
        self._poller.stop()
        self._textfile.end()
        self._node.close()
        self._remember()
        if self._owners is not None:
            self._owners.end(self._store)
        last_moment.cancel()
        self._black_box.end(_LAST_FLIGHT_SECONDS)

    def _leave_unfinished(self) -> None:
        logger.warning("not all tasks ended in time and were left behind", extra={"seconds": LONGEST_END_SECONDS})
        log.leave(self._status)

    async def _start_local(self, server: ControlServer | LocalSite, lost: str) -> None:
        try:
            await server.start()
        except OSError as error:
            logger.warning(lost, extra={"error": error})

    def _reads(self) -> Mapping[str, str]:
        """Return headers that describe this daemon's settings; a node with simulated or recorded devices has none."""
        if not self._start.remembers_devices:
            return {}
        return {READS_HEADER: settings_hash(self._settings), GIVEN_HEADER: self._given}

    def _reload_by_signal(self) -> None:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = loop.create_task(self._reload_in_turn())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)

    def _watch_nodes(self) -> None:
        """Look for devices that the unit's allow-list denies, if systemd would restart the service."""
        if not device_nodes.under_systemd(os.environ):
            return
        loop = asyncio.get_running_loop()

        def look() -> None:
            denied = self._node_watch.newly_denied()
            if denied:
                logger.warning(
                    "devices appeared after the start and are not allowed; restarting", extra={"nodes": denied}
                )
                self._status = exits.RESTART
                loop.call_soon_threadsafe(self._stop.set)

        self._poller.run_every("device nodes", device_nodes.LOOK_SECONDS, look)

    def _set_daemon_metrics(self) -> None:
        self._daemon_metrics.set_version()
        self._daemon_metrics.set_reload(succeeded=1.0)
        self._daemon_metrics.configure(self._settings)
        self._daemon_metrics.set_plugin_failures(self._node.failures())
        self._maintenance.keep()
        self._daemon_metrics.set_pci(self._node.pci_counts())
        self._daemon_metrics.set_known_since(self._known_since)

    async def _reload_in_turn(self) -> None:
        """Run one reload at a time, with one more waiting: the waiting reload covers all signals until then."""
        if self._reload_waits:
            return
        self._reload_waits = True
        async with self._reloading:
            self._reload_waits = False
            await self._reload()

    async def _reload(self) -> None:
        systemd.reloading()
        try:
            given = self._start.given()
            settings = await asyncio.to_thread(self._start.reload_settings)
            web = settings.web
            await self._web.reconfigure(web.listen_address, web.config_file, web.allowed_hosts)
            await self._other_names.serve(settings, self._site.respond, self._rate_limits)
            await asyncio.to_thread(self._apply, settings)
            self._given = given
        except (ConfigError, WebError) as error:
            self._daemon_metrics.set_reload(succeeded=0.0)
            logger.error("the configuration was not reloaded; the running one stays", extra={"error": str(error)})
            systemd.ready("the new configuration is bad; the running one stays")
            return
        self._daemon_metrics.set_reload(succeeded=1.0)
        logger.info("configuration reloaded")
        systemd.ready("serving on " + ", ".join(self._web.addresses))

    def _apply(self, settings: Settings) -> None:
        log.setup(settings.log.level, settings.log.format)
        previous = self._settings
        for name in _FIXED:
            if attrgetter(name)(settings) != attrgetter(name)(previous):
                logger.warning("a changed setting needs a restart", extra={"setting": name})
        self._settings = replace(
            settings,
            state=previous.state,
            parsers=previous.parsers,
            export=previous.export,
            attribution=previous.attribution,
            steps=previous.steps,
        )
        for name in list(self._poller.sources()):
            if settings.source(name) != previous.source(name):
                self._poller.replace_source(name, partial(self._source, name))
        self._configure_black_box()
        self._site.renew_peer_pages()
        self._daemon_metrics.configure(settings)
        self._ranks.configure(settings.ranks)

    def _configure_black_box(self) -> None:
        if self._start.remembers_devices:
            self._black_box.configure(self._settings)

    def _source(self, name: str) -> Source:
        return self._node.source(name, self._settings)

    def _round(self, *, ask: bool) -> Callable[[], bool]:
        return self._poller.round_check(poll_now=ask)

    async def _feed_watchdog(self, interval: float) -> None:
        """Notify systemd's watchdog while this loop, the guard's thread and the scheduler all run."""
        ticks = -1
        while True:
            if self._guard.ticks != ticks and self._poller.is_alive():
                systemd.watchdog()
            ticks = self._guard.ticks
            await asyncio.sleep(interval / 2)

    def _housekeeping(self) -> None:
        self._daemon_metrics.set_pci(self._node.pci_counts())
        self._maintenance.keep()
        self._black_box.look()
        self._remember()
        give_free_pages_back()

    def _remember(self) -> None:
        if self._memory is not None:
            self._memory.save(self._store.identities(), self._store.open_events())


def _owner_series(settings: AttributionSettings) -> OwnerSeries:
    return OwnerSeries(settings.process_metrics, settings.inline_labels) if settings.enabled else NO_OWNERS
