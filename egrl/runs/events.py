"""TensorBoard event files, written synchronously, so that a full disk is found where it happens."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

from egrl.core.atomic import disk_failure


class EventFile:
    """An event file of scalars; readers forget what earlier files of the folder hold from step `first` on."""

    def __init__(self, folder: Path, first: int) -> None:
        """Raises RunFailure where the disk refuses."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._folder = folder
        try:
            self._writer = EventsWriter(str(folder / "events"))
            start = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(step=first, wall_time=time.time(), session_log=start))
        except OSError as error:
            raise disk_failure(folder / "events", error) from error

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """The finite ones of some scalars. Raises RunFailure where the disk refuses."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=k, simple_value=float(v)) for k, v in scalars.items() if math.isfinite(v)]
        try:
            self._writer.write_event(Event(step=step, wall_time=time.time(), summary=Summary(value=values)))
            self._writer.flush()
        except OSError as error:
            raise disk_failure(self._folder / "events", error) from error

    def close(self) -> None:
        """Close the file; what a full disk refuses now was reported by `append`."""
        try:
            self._writer.close()
        except OSError:
            return
