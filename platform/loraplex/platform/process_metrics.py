"""What the processes of this machine take of it: those that count in the shared folder."""

from collections.abc import Iterable

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from loraplex.platform.metrics_folder import members

LABELS = ("process", "pid")
SLACK_SECONDS = 5.0
"""The clock may have been set between a process's start and its joining."""


class ProcessCollector(Collector):
    """Looks at each process when it is asked."""

    def collect(self) -> Iterable[Metric]:
        cpu = CounterMetricFamily(
            "loraplex_process_cpu_seconds", "User and system time.", labels=LABELS
        )
        memory = GaugeMetricFamily(
            "loraplex_process_resident_memory_bytes", "Memory in RAM.", labels=LABELS
        )
        files = GaugeMetricFamily("loraplex_process_open_fds", "Open files.", labels=LABELS)
        started = GaugeMetricFamily(
            "loraplex_process_start_time_seconds", "When it began, in Unix time.", labels=LABELS
        )
        for kind, process_id, joined_at in members():
            try:
                process = psutil.Process(process_id)
                with process.oneshot():
                    if process.create_time() > joined_at + SLACK_SECONDS:
                        continue  # the id is another process's by now
                    place = [kind, str(process_id)]
                    times = process.cpu_times()
                    cpu.add_metric(place, times.user + times.system)
                    memory.add_metric(place, process.memory_info().rss)
                    started.add_metric(place, process.create_time())
                    files.add_metric(place, process.num_fds())
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return cpu, memory, files, started
