"""Runs the daemon, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.inputs import INPUTS_HASH_HEADER, SETTINGS_HASH_HEADER, ConfigError
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.config.settings import Settings, settings_hash
from telemetry_daemon.polling.clock import ClockGuard
from telemetry_daemon.polling.node_sources import Node
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.readers import device_nodes
from telemetry_daemon.readers.device_nodes import DeviceNodeWatch
from telemetry_daemon.readers.pci import read_machine_state
from telemetry_daemon.recordings.last_minutes import CaptureFeed
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_socket import ControlServer
from telemetry_daemon.service import systemd
from telemetry_daemon.service.capture_service import CaptureService
from telemetry_daemon.service.compat_pages import CompatPages
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.service.local_site import LocalSite
from telemetry_daemon.service.memory import return_free_pages
from telemetry_daemon.service.operators import MaintenanceRequestHandler, OperatorRequestHandler
from telemetry_daemon.service.textfile_job import TextfileJob
from telemetry_daemon.site.process_metrics import ProcessMetrics
from telemetry_daemon.site.routes import Site
from telemetry_daemon.state import devices_file, maintenance
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.devices_file import StoredDevices
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.maintenance import MaintenanceState
from telemetry_daemon.state.ranks import CHECK_SECONDS, RankTableWatcher
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

if TYPE_CHECKING:  # imported only if owners are reported
    from telemetry_daemon.service.owners import OwnerAccounting

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 10.0
# The interval at which new and ended owners are written to the ledger.
LEDGER_SECONDS = 1.0
# Stopping takes at most this long, even if a tool hangs.
MAX_END_SECONDS = 2.5
# The flight recorder gets this much more time. Both times together are less than TimeoutStopSec.
_LAST_FLIGHT_SECONDS = 6.0
_NO_CONTROL_WARNING = (
    "no control socket: `telemetry forget`, `release`, `resume` and `maintenance` will not reach this daemon"
)
_NO_LOCAL_WARNING = "no local socket: `telemetry top` and `snapshot` reach this daemon at its listen address only"
_SETTINGS_THAT_NEED_RESTART = (
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
class ServiceArguments:
    """The arguments of a service."""

    settings: Settings
    reload_settings: Callable[[], Settings]
    stores_state: bool = True
    input_hash: Callable[[], str] = str
    capture_feed: CaptureFeed = field(default_factory=CaptureFeed)


class Service:
    """A running daemon, from start to stop."""

    def __init__(self, arguments: ServiceArguments, node: Node, clock: Clock) -> None:
        self._arguments = arguments
        self._settings = arguments.settings
        self._input_hash = arguments.input_hash()
        self._node = node
        self._devices_writer, stored_devices = self._load_devices(clock.wall())
        self._known_since = stored_devices.since
        self._history = History(node.clock)
        self._owners = self._create_owners(node)
        maintenance_state = MaintenanceState(self._maintenance_path(), clock)
        self._capture_service = CaptureService(
            arguments.capture_feed, clock, self._begin_round, lambda: maintenance_state.current().is_on
        )
        self._store = self._create_store(node, stored_devices)
        self._daemon_metrics = DaemonMetrics(self._store)
        self._maintenance = MaintenanceRequestHandler(maintenance_state, self._store)
        self._poller = Poller(self._store, clock)
        self._rank_watcher = RankTableWatcher(self._settings.ranks, self._store.facts.set_ranks)
        self._clock_guard = ClockGuard(lambda _: self._poller.realign(), monotonic=clock.monotonic, wall=clock.wall)
        self._metrics = {metric.key: metric for metric in node.metrics()}
        self._compat_pages = CompatPages(
            self._settings, self._daemon_metrics.set_compat, reports_owners=self._owners is not None
        )
        self._site = self._create_site(clock)
        textfile_path, owner_series = self._settings.export.textfile.path, _owner_series(self._settings.attribution)
        self._textfile = TextfileJob(textfile_path, self._store.snapshot, self._metrics, owner_series)
        self._rate_limits = RateLimits()
        self._web_server = self._create_web_server()
        self._control_server = self._create_control_server(node)
        runtime = self._settings.state.runtime_directory
        self._local_site = LocalSite(local_socket_in(runtime), self._site.respond, self._configuration_headers)
        self._node_watch = DeviceNodeWatch(Path(runtime), clock.monotonic)
        self._exit_status = exits.OK
        self._stop_event = asyncio.Event()
        self._reload_lock = asyncio.Lock()
        self._is_reload_waiting = False

    def _load_devices(self, now: float) -> tuple[devices_file.DevicesFileWriter | None, StoredDevices]:
        if not self._arguments.stores_state:
            return None, StoredDevices(since=now)
        devices_writer = devices_file.DevicesFileWriter(devices_file.path_in(self._settings.state.directory), now)
        return devices_writer, devices_writer.stored

    def _maintenance_path(self) -> Path | None:
        return maintenance.path_in(self._settings.state.directory) if self._arguments.stores_state else None

    def _create_store(self, node: Node, stored_devices: StoredDevices) -> Store:
        observer = self._capture_service.alarm_detector if self._arguments.stores_state else None
        ledger, attribution = (self._owners.ledger, self._owners.attribution) if self._owners else (None, None)
        events = Events(read_machine_state(), stored_devices.events)
        accumulator = Accumulator(events, self._history, ledger, observer)
        return Store(
            socket.gethostname(), node.clock, stored_devices.devices, accumulator, node.replay_info, attribution
        )

    def _create_site(self, clock: Clock) -> Site:
        return Site(
            self._store.snapshot,
            self._store.readiness,
            ProcessMetrics().render,
            telemetry_path=self._settings.web.telemetry_path,
            plugin_metrics=self._metrics,
            history=self._history,
            instance=f"{int(clock.wall() * 1000):x}",
            owners=_owner_series(self._settings.attribution),
            peer_pages=self._compat_pages.pages,
            flights=self._capture_service.flights,
            read_counters=self._poller.read_counters,
        )

    def _create_web_server(self) -> WebServer:
        web, respond, limits = self._settings.web, self._site.respond, self._rate_limits
        return WebServer(respond, web.listen_address, web.config_file, allowed_hosts=web.allowed_hosts, limits=limits)

    def _create_control_server(self, node: Node) -> ControlServer:
        operators = OperatorRequestHandler(self._store, self._poller, self._source, self._metrics, self._save_devices)
        return ControlServer(
            control.socket_path(self._settings.state.runtime_directory),
            {**operators.handlers, **self._maintenance.handlers, **self._capture_service.handlers, **node.handlers()},
        )

    def _create_owners(self, node: Node) -> OwnerAccounting | None:
        if not self._settings.attribution.enabled and node.replay_info is None:
            return None
        from telemetry_daemon.service.owners import OwnerAccounting  # imported only if owners are reported

        settings, stores_state = self._settings, self._arguments.stores_state
        return OwnerAccounting(settings.attribution, settings.state.directory if stores_state else None, node.clock)

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit status. Raise WebError if a web server cannot start."""
        loop = asyncio.get_running_loop()
        # A client may send a signal as soon as the port is open, so the handlers are set before that.
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, self._stop_event.set)
        self._site.enable_stream(loop)
        self._store.set_change_callback(self._site.send_changes)
        await self._web_server.start()
        await self._compat_pages.serve(self._settings, self._site.respond, self._rate_limits)
        self._reload_on_sighup()
        await self._start_or_warn(self._control_server, _NO_CONTROL_WARNING)
        await self._start_or_warn(self._local_site, _NO_LOCAL_WARNING)
        self._set_daemon_metrics()
        self._configure_capture_service()
        sources = self._node.sources(self._settings)
        self._node.start_filling(self._store, self._history, sources)
        self._poller.start(sources)
        self._poller.run_every("history", SLOT_SECONDS, partial(self._history.end_slots, self._store.snapshot))
        self._poller.run_every("housekeeping", HOUSEKEEPING_SECONDS, self._run_housekeeping)
        self._poller.run_every("rank table", CHECK_SECONDS, self._rank_watcher.check)
        self._watch_device_nodes()
        if self._owners is not None:
            self._poller.run_every("ledger", LEDGER_SECONDS, partial(self._owners.write, self._store))
        if self._settings.attribution.enabled and self._arguments.stores_state:
            from telemetry_daemon.service.owners import CHECK_SECONDS as CHECK_JOBS_SECONDS
            from telemetry_daemon.service.owners import JobFolderWatcher

            job_folder_watcher = JobFolderWatcher(self._settings.attribution.job_directory, self._poller.poll_now)
            self._poller.run_every("job folder", CHECK_JOBS_SECONDS, job_folder_watcher.check)
        if self._textfile.is_configured:
            self._poller.run_every("textfile", self._settings.export.textfile.interval, self._textfile.run)
        self._clock_guard.start()
        addresses = ", ".join(self._web_server.addresses)
        logger.info("serving", extra={"version": __version__, "address": addresses})
        systemd.report_ready(f"serving on {addresses}")
        try:
            await self._serve_until_stopped()
        finally:
            await self._shut_down()
        return self._exit_status

    async def _serve_until_stopped(self) -> None:
        stop_task = asyncio.create_task(self._stop_event.wait())
        serving_tasks = [asyncio.create_task(self._web_server.serve_forever())]
        watchdog_seconds = systemd.watchdog_interval()
        if watchdog_seconds is not None:
            serving_tasks.append(asyncio.create_task(self._feed_watchdog(watchdog_seconds)))
        await asyncio.wait([stop_task, *serving_tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (stop_task, *serving_tasks):
            if task.done():
                task.result()
            task.cancel()

    async def _shut_down(self) -> None:
        logger.info("stopping")
        systemd.report_stopping()
        timeout = threading.Timer(MAX_END_SECONDS, self._exit_unfinished)
        timeout.daemon = True
        timeout.start()
        await self._control_server.close()
        await asyncio.gather(self._local_site.close(), self._web_server.close(), self._compat_pages.close())
        self._clock_guard.stop()
        self._poller.stop()
        self._textfile.end()
        self._node.close()
        self._save_devices()
        if self._owners is not None:
            self._owners.end(self._store)
        timeout.cancel()
        self._capture_service.end(_LAST_FLIGHT_SECONDS)

    def _exit_unfinished(self) -> None:
        logger.warning("stopped before all tasks had ended", extra={"seconds": MAX_END_SECONDS})
        log.exit_at_once(self._exit_status)

    async def _start_or_warn(self, server: ControlServer | LocalSite, warning: str) -> None:
        try:
            await server.start()
        except OSError as error:
            logger.warning(warning, extra={"error": error})

    def _configuration_headers(self) -> Mapping[str, str]:
        """Return headers with hashes of the configuration, or none if the state is not stored."""
        if not self._arguments.stores_state:
            return {}
        return {SETTINGS_HASH_HEADER: settings_hash(self._settings), INPUTS_HASH_HEADER: self._input_hash}

    def _reload_on_sighup(self) -> None:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = loop.create_task(self._reload_in_turn())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)

    def _watch_device_nodes(self) -> None:
        """Restart the service if a device appears that the systemd unit does not allow."""
        if not device_nodes.is_under_systemd(os.environ):
            return
        loop = asyncio.get_running_loop()

        def check_nodes() -> None:
            denied_paths = self._node_watch.record_newly_denied()
            if denied_paths:
                logger.warning("the systemd unit denies new device nodes; restarting", extra={"nodes": denied_paths})
                self._exit_status = exits.RESTART
                loop.call_soon_threadsafe(self._stop_event.set)

        self._poller.run_every("device nodes", device_nodes.CHECK_SECONDS, check_nodes)

    def _set_daemon_metrics(self) -> None:
        self._daemon_metrics.set_version()
        self._daemon_metrics.record_reload(succeeded=True)
        self._daemon_metrics.configure(self._settings)
        self._daemon_metrics.set_plugin_failures(self._node.failed_plugins())
        self._maintenance.save()
        self._daemon_metrics.set_pci(self._node.pci_counts())
        self._daemon_metrics.set_known_since(self._known_since)

    async def _reload_in_turn(self) -> None:
        """Reload after the current reload. Ignore the request if another is already waiting."""
        if self._is_reload_waiting:
            return
        self._is_reload_waiting = True
        async with self._reload_lock:
            self._is_reload_waiting = False
            await self._reload()

    async def _reload(self) -> None:
        systemd.report_reloading()
        try:
            input_hash = self._arguments.input_hash()
            settings = await asyncio.to_thread(self._arguments.reload_settings)
            web = settings.web
            await self._web_server.reconfigure(web.listen_address, web.config_file, web.allowed_hosts)
            await self._compat_pages.serve(settings, self._site.respond, self._rate_limits)
            await asyncio.to_thread(self._apply_settings, settings)
            self._input_hash = input_hash
        except (ConfigError, WebError) as error:
            self._daemon_metrics.record_reload(succeeded=False)
            logger.error(
                "the configuration was not reloaded; the running configuration remains", extra={"error": str(error)}
            )
            systemd.report_ready("the new configuration is invalid; the running configuration remains")
            return
        self._daemon_metrics.record_reload(succeeded=True)
        logger.info("configuration reloaded")
        systemd.report_ready("serving on " + ", ".join(self._web_server.addresses))

    def _apply_settings(self, settings: Settings) -> None:
        log.setup(settings.log.level, settings.log.format)
        previous = self._settings
        for name in _SETTINGS_THAT_NEED_RESTART:
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
        self._configure_capture_service()
        self._site.rebuild_peer_pages()
        self._daemon_metrics.configure(settings)
        self._rank_watcher.configure(settings.ranks)

    def _configure_capture_service(self) -> None:
        if self._arguments.stores_state:
            self._capture_service.configure(self._settings)

    def _source(self, name: str) -> Source:
        return self._node.source(name, self._settings)

    def _begin_round(self, *, poll_now: bool) -> Callable[[], bool]:
        return self._poller.begin_round(poll_now=poll_now)

    async def _feed_watchdog(self, interval: float) -> None:
        """Notify systemd's watchdog while all parts of the daemon are running."""
        ticks = -1
        while True:
            if self._clock_guard.ticks != ticks and self._poller.is_alive():
                systemd.report_alive()
            ticks = self._clock_guard.ticks
            await asyncio.sleep(interval / 2)  # systemd expects a report in each interval

    def _run_housekeeping(self) -> None:
        self._daemon_metrics.set_pci(self._node.pci_counts())
        self._maintenance.save()
        self._capture_service.update_flights()
        self._save_devices()
        return_free_pages()

    def _save_devices(self) -> None:
        if self._devices_writer is not None:
            self._devices_writer.save(self._store.identities(), self._store.open_events())


def _owner_series(settings: AttributionSettings) -> OwnerSeries:
    return OwnerSeries(settings.process_metrics, settings.inline_labels) if settings.enabled else NO_OWNERS
