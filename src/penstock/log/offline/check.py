"""Is all there that should be? One check, for the opening of a directory and for every tool that looks at one:
what its small files say, and how far its journal must reach."""

from __future__ import annotations

from penstock.core.errors import DirectoryFormat
from penstock.core.ports import Disk
from penstock.core.types import Sequence
from penstock.log.journal.marks import mark_faults, newest_mark
from penstock.log.journal.replay import JournalReader
from penstock.log.journal.slots import has_frames
from penstock.log.upkeep.checkpoint import PATH as CHECKPOINT_PATH
from penstock.log.upkeep.checkpoint import Checkpoint, checkpoint_faults, read_checkpoint
from penstock.log.upkeep.copies import FileFault, copy_paths
from penstock.log.upkeep.format_file import format_faults, has_copies


def small_file_faults(disk: Disk, *, is_live: bool = False) -> list[FileFault]:
    """Copies that are damaged or gone. An opening writes them anew, if it does not refuse."""
    faults = [*format_faults(disk), *checkpoint_faults(disk)]
    return faults if is_live or not _is_marked(disk) else [*faults, *mark_faults(disk)]


def known_checkpoint(disk: Disk) -> Checkpoint:
    """The checkpoint; an empty one of a directory that was never used. DirectoryFormat if it is lost or damaged."""
    if (checkpoint := read_checkpoint(disk)) is not None:
        return checkpoint
    if has_frames(disk):
        raise DirectoryFormat(
            f"the files {' and '.join(copy_paths(CHECKPOINT_PATH))} are missing though the journal has been used; "
            f"restore the directory from a backup (`penstock restore`)"
        )
    return Checkpoint(0, 0, 0, 1, True, ())


def journal_reader(disk: Disk, checkpoint: Checkpoint) -> JournalReader:
    """Of what lies behind the checkpoint. After a clean stop that is nothing, whatever the journal's files hold."""
    reader = JournalReader(disk, Sequence(checkpoint.first_sequence), Sequence(checkpoint.known_durable))
    if not checkpoint.clean and _is_marked(disk):
        reader.rest_on(newest_mark(disk))
    return reader


def _is_marked(disk: Disk) -> bool:
    """Marks are there before the first checkpoint of the format that has them."""
    return has_copies(disk) and any(map(disk.exists, copy_paths(CHECKPOINT_PATH)))
