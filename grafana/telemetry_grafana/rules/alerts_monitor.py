"""Alerts about the monitor itself."""

from __future__ import annotations

from telemetry_daemon.config.settings import DEFAULT_PORT
from telemetry_grafana.rules.rule import MAINTENANCE_END, AlertGroup, critical, info, warning

# Sources in these states are expected to report nothing.
_SILENT = 'telemetry_source_state{state=~"released|suspended|disabled|missing|no_devices|not_mine|not_supported"} == 1'
_UNLESS_STUCK = 'unless on (cluster, job, instance, source) (telemetry_source_state{state="stuck"} == 1)'
# Selects jobs in which all responding targets are telemetry daemons.
_IN_TELEMETRY_JOBS = "on (cluster, job) (count by (cluster, job) (up == 1) == on (cluster, job) count by (cluster, job) (telemetry_build_info))"
_POLL_DURATION = "telemetry_source_duration_seconds"
# Polls that run a tool once per card, and so take longer with more cards.
PER_CARD_POLLS = {
    "hccn-tool": "link|flaps|statistics|speed|net-health",
    "npu-smi": "usages|common|memory|temperatures|voltage|board|card|ecc|health|pcie-errors",
    "xpu-smi": "details|limits",
}
_PER_CARD_POLL_DURATIONS = " or ".join(
    f'{_POLL_DURATION}{{source="{name}",poll=~"{polls}"}}' for name, polls in PER_CARD_POLLS.items()
)
_WITHIN_SECOND_PER_CARD = f"({_PER_CARD_POLL_DURATIONS}) <= on (cluster, job, instance) group_left () count by (cluster, job, instance) (accelerator_up)"

_NODE_DOWN = (
    "(up == 0 or avg_over_time(up[10m]) < $up_share and min_over_time(up[3m]) == 0)"
    f" and (up and on (cluster, job, instance) last_over_time(instance:telemetry:once[1h]) or up and {_IN_TELEMETRY_JOBS})"
)
MAINTENANCE = "TelemetryMaintenance"

MONITOR = AlertGroup(
    "telemetry-monitor",
    "Monitoring itself",
    (
        info(
            name=MAINTENANCE,
            condition=f"last_over_time({MAINTENANCE_END}[1h]) - time() > 0",
            summary="{instance} is in maintenance for another {value:humanizeDuration}",
            meaning="An operator announced work on the node. Our alertmanager.yml sends it to no receiver. In Alertmanager, it inhibits the node's other alerts without resolving them, so incidents stay open.",
            check="`telemetry maintenance` on the node shows the end and the reason of the maintenance.",
            remedy="No action is needed. `telemetry maintenance off` ends the maintenance early.",
        ),
        warning(
            name="TelemetryDown",
            condition=_NODE_DOWN,
            pending_period="3m",
            summary="telemetry on {instance} does not respond",
            meaning="Scrapes of a node fail, because the node, the network or the daemon is down. A node that was never scraped is covered only if all responding targets of its job are telemetry daemons.",
            check=f"Run `systemctl status telemetry` and `curl -s localhost:{DEFAULT_PORT}/healthz` on the node. See the target's error on Prometheus' page /targets.",
            remedy="Start the daemon. Handle this alert first, because the jobs of the node may be down as well. Remove a decommissioned node from the targets.",
        ),
        critical(
            name="TelemetryStillDown",
            condition=_NODE_DOWN,
            pending_period="15m",
            summary="telemetry on {instance} has not responded for a quarter of an hour",
            meaning="TelemetryDown has lasted longer than a reboot.",
            check="See TelemetryDown. Also check the node's console and BMC.",
            remedy="See TelemetryDown. If the node hangs during startup, power-cycle it.",
        ),
        critical(
            name="TelemetryAbsent",
            # If a cluster's agent stops, all series of the cluster end, including `up`.
            condition=(
                "absent(telemetry_build_info)"
                " or last_over_time(fleet:telemetry:seen[7d]) unless on (cluster) (up or telemetry_build_info)"
            ),
            pending_period="10m",
            summary="no node of the cluster reports accelerators",
            meaning="No telemetry daemon responds to Prometheus: none is configured, discovery finds none, or all are down. If the alert has the label `cluster`, the cluster had nodes within the last week. Its agent is down or cannot reach the store.",
            check="Check the page /targets and the scrape configuration of Prometheus or of the cluster's agent.",
            remedy="Correct the scrape configuration, the service discovery or the agent.",
        ),
        critical(
            name="TelemetrySilent",
            # The agent runs on the node itself, so `up` never becomes 0 if the node goes down.
            condition=(
                "last_over_time(instance:telemetry:pushed[7d])"
                # Telegraf does not write `up`.
                " unless on (cluster, job, instance) (up or telemetry_build_info)"
            ),
            pending_period="10m",
            summary="{instance} has stopped sending its metrics",
            meaning="A node with the label `pushed` sent metrics within the last week, but sends none now. The node, its agent or the path to the store is down.",
            check="See whether the node is up. On the node, run `systemctl status telemetry-agent telemetry`, and read the agent's log.",
            remedy="Repair the network path to the store, or start the agent. The agent then sends the queued samples. Silence the alert if the node was removed.",
        ),
        warning(
            name="TelemetrySourceFailing",
            condition=(
                "avg_over_time(telemetry_source_up[10m]) < $up_share and min_over_time(telemetry_source_up[2m]) == 0"
                f" {_UNLESS_STUCK}"
            ),
            pending_period="10m",
            summary="{source} on {instance} fails, so its readings are missing unless other sources report them",
            meaning="An installed tool or library fails most of the time, because of a timeout, a driver error, missing permissions, or unknown output.",
            check="`telemetry doctor` on the node names the reason and the remedy. `telemetry_source_failures_total` counts failures by reason.",
            remedy="For `driver_gone`, load the driver or reboot. For `no_permission`, give the daemon the permissions that docs/install.md lists. For `library_mismatch`, reload the upgraded driver or reboot. For `timeout`, see TelemetrySourceStuck.",
        ),
        critical(
            name="TelemetrySourceStuck",
            condition='telemetry_source_state{state="stuck"} == 1',
            pending_period="5m",
            summary="{source} on {instance} is stuck: a process hangs in the driver or blocks the tool",
            meaning="Usually a process hangs in the driver (uninterruptible sleep). Jobs on the driver's cards hang as well, or will hang soon. Otherwise, another process blocks the vendor's tool.",
            check="`telemetry doctor` names the process. Also run `ps -eo pid,stat,wchan:30,cmd | grep ' D'` and `dmesg | tail`.",
            remedy="Kill the process. If it is in state D, it cannot be killed: drain and reboot the node. The daemon continues, and starts no second process while the first one hangs.",
        ),
        warning(
            name="TelemetryReadingsStale",
            condition=(
                # The 5 minutes bridge a restart of the daemon.
                "last_over_time(telemetry_source_poll_up[5m]) == 0"
                f" unless on (cluster, job, instance, source) ({_SILENT} or telemetry_source_up == 0)"
            ),
            # Five times the longest default interval of a poll.
            pending_period="25m",
            summary="{source}/{poll} on {instance} has failed for 25 minutes or longer",
            meaning="One of the source's polls has failed several times in a row, while the others work. The readings of the failed poll have expired and are not exposed.",
            check="Run `telemetry doctor`, and read the log (`journalctl -u telemetry`).",
            remedy="See TelemetrySourceFailing. If the card does not support the poll, set `sources.NAME.polls.POLL.mode` to `never`.",
        ),
        warning(
            name="TelemetryReadingsGone",
            condition=(
                "accelerator_up == 1"
                " and on (cluster, job, instance, id) last_over_time(accelerator:core_readings:once[1h])"
                " unless on (cluster, job, instance, id) accelerator:core_readings:group"
                " unless on (cluster, job, instance, id) (accelerator_suspended == 1)"
            ),
            pending_period="10m",
            summary="{vendor} {device} on {instance} is listed, but its readings are missing",
            meaning="The source still lists the device, but no longer reports its core readings. This often precedes the loss of a card.",
            check="`telemetry snapshot --why` shows the reasons. Also run the vendor's tool by hand.",
            remedy="Drain the card, run `telemetry release`, and reset the card. If this does not help, replace the card.",
        ),
        warning(
            name="TelemetryPollSlow",
            condition=(
                f"{_POLL_DURATION} > $slow_seconds unless {_WITHIN_SECOND_PER_CARD}"
                " unless on (cluster, job, instance, source, poll) (telemetry_source_poll_up == 0)"
            ),
            pending_period="10m",
            summary="{source}/{poll} on {instance} takes {value:humanizeDuration}",
            meaning="The tool or the driver is slow. A poll takes more than five seconds, or more than one second per card if it reads the cards one by one. A driver often becomes slow before it hangs.",
            check="In the Monitor health dashboard, see whether the change was sudden. Look at the host's load.",
            remedy="Poll a slow tool less often (`sources.NAME.interval`). If the change was sudden, test the node.",
        ),
        info(
            name="TelemetryNotUnderstood",
            # A failing source has its own alert.
            condition="telemetry_source_problems > 0 and on (cluster, job, instance, source) telemetry_source_up == 1",
            pending_period="30m",
            summary="{source} on {instance} prints output that telemetry does not understand",
            meaning="The daemon did not recognize a part of the tool's output and ignored it. The tool may be new, or the card rare. The exposed readings are correct, but some readings may be missing.",
            check="`telemetry snapshot --format json` lists the problems and the affected lines.",
            remedy="Send the output (`telemetry record` masks it) with a bug report.",
        ),
        warning(
            name="TelemetryPluginNotLoaded",
            condition="telemetry_plugin_load_failures == 1",
            pending_period="5m",
            summary="plugin {plugin} on {instance} could not be loaded",
            meaning="An installed parser does not load, or its worker sends invalid messages. The daemon does not poll the parser's source.",
            check="`telemetry doctor` shows the error.",
            remedy="Repair or remove the plugin.",
        ),
        warning(
            name="TelemetryConfigurationRejected",
            condition="telemetry_config_last_reload_successful == 0",
            pending_period="5m",
            summary="the configuration on {instance} is invalid; the previous one is used",
            meaning="A reload found an error in the configuration. The daemon continues with the previous configuration. After a restart, it would refuse the new file.",
            check="`telemetry config check` names the key and the line.",
            remedy="Correct the file and run `systemctl reload telemetry`.",
        ),
        warning(
            name="TelemetryRestarting",
            condition=(
                "changes(process_start_time_seconds[1h]) > $restarts"
                " and on (cluster, job, instance) last_over_time(telemetry_build_info[1h])"
            ),
            counted_over_seconds=3600,
            summary="telemetry on {instance} was started {value} times within an hour",
            meaning="The daemon restarts repeatedly: the kernel kills it because it uses too much memory, its watchdog kills it, or somebody restarts it by hand.",
            check="Run `journalctl -u telemetry` and `dmesg | grep -i oom`.",
            remedy="If the daemon crashed, report the crash with the log. After a restart by the watchdog, the log contains the stack of each thread.",
        ),
        warning(
            name="TelemetryClockSkew",
            # Both times are from the same scrape, so the age of the scrape does not matter.
            condition="abs(telemetry_time_seconds - timestamp(telemetry_time_seconds)) > $skew_seconds",
            pending_period="15m",
            summary="the clocks of {instance} and Prometheus differ by {value:humanizeDuration}",
            meaning="The clocks of the node and of Prometheus differ. The times in the node's logs and events are wrong, and certificates may seem expired or not yet valid.",
            check="Run `timedatectl` or `chronyc tracking` on the node. If the alert fires for many nodes at once, check the machine on which Prometheus runs.",
            remedy="Make sure that the node can reach its time server, and start its time service.",
        ),
    ),
)
