"""The groups of aggregates over joins, by their directories: which query may join which, and opening them.

plans/join-DIGEST-N/   group.json: the founders, and what was decided for them     log/, state/: as any plan's
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from sash.core.errors import CheckpointError
from sash.engine.continuous.join_layout import JoinLayout
from sash.engine.continuous.join_runtime import JoinRuntime, Surroundings, layout_of
from sash.engine.records.journal import GroupMember
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.sharing.choose_join import JoinLoad
from sash.storage.files import damaged, make_directory, read_facts, write_facts

# Opens the runtime of a layout in a directory: founders, layout, directory.
Open = Callable[[Sequence[GroupMember], JoinLayout, Path], JoinRuntime]


class JoinGroups:
    """Of one session; the caller keeps those that run, and holds the lock of all plans."""

    def __init__(self, around: Surroundings, open_: Open) -> None:
        self.around = around
        self._open = open_

    def opened(self, directory: Path, first: GroupMember | None) -> JoinRuntime:
        """As it was left; where nobody has founded it yet, `first` does."""
        path = directory / "group.json"
        if not path.exists() and first is not None and not (directory / "log" / "manifest.json").exists():
            return self._founded(directory, [first], layout_of([first], self.around.bind))
        founders, signature = _read(path)
        layout = layout_of(founders, self.around.bind)
        if layout.signature != signature:
            raise _other_layout(founders)
        runtime = self._open(founders, layout, directory)
        runtime.recover()
        gone = [each.serial for each in founders if self.around.handle(each.name, each.serial) is None]
        return self.without(runtime, directory, gone)

    def with_founder(
        self, runtime: JoinRuntime, directory: Path, member: GroupMember, layout: JoinLayout
    ) -> JoinRuntime:
        """An open group with one more founder, which would keep this then."""
        return self._founded_anew(runtime, directory, [*runtime.founders, member], layout)

    def without(self, runtime: JoinRuntime, directory: Path, gone: Collection[int]) -> JoinRuntime:
        """A group as if queries that are gone had not founded it, while it is open; else what it keeps stays."""
        asked = zip(runtime.founders, runtime.layout.founders, strict=True)
        left = {member: query for member, query in asked if member.serial not in gone}
        if not runtime.is_open or not left or len(left) == len(runtime.founders):
            return runtime
        layout = JoinLayout(list(left.values()), JoinLoad(groups=max(member.groups for member in left)))
        return self._founded_anew(runtime, directory, list(left), layout)

    def _founded_anew(
        self, runtime: JoinRuntime, directory: Path, founders: Sequence[GroupMember], layout: JoinLayout
    ) -> JoinRuntime:
        found = self._founded(directory, founders, layout)
        found.succeed(runtime)
        return found

    def _founded(self, directory: Path, founders: Sequence[GroupMember], layout: JoinLayout) -> JoinRuntime:
        make_directory(directory)
        write_facts(directory / "group.json", {"founders": founders, "layout": layout.signature})
        return self._open(founders, layout, directory)

    def layout_with(self, runtime: JoinRuntime, asked: JoinedAggregate, groups: int) -> JoinLayout | None:
        """What a group would keep with one query more; None if it cannot join."""
        layout = runtime.layout
        if not runtime.is_open:
            can_join = runtime.failed is None and layout.place_of(asked) is not None and not runtime.is_crowded(asked)
            return layout if can_join else None
        founders = [*layout.founders, asked]
        load = JoinLoad(groups=max(groups, layout.load.groups))
        return JoinLayout(founders, load) if shared_rows(founders) is not None else None

    def why_not(self, runtime: JoinRuntime, asked: JoinedAggregate) -> str:
        """In a few words, why a query cannot join a group."""
        if runtime.failed is not None:
            return "their join has failed"
        if runtime.is_open:
            return "one name would stand for two columns"
        if runtime.is_crowded(asked):
            return "their groups were too many"
        return runtime.layout.why_not(asked) or "it can"

    def check(self, runtime: JoinRuntime, asked: JoinedAggregate) -> None:
        if runtime.layout.place_of(asked) is None:
            raise _other_layout(runtime.founders)


def _read(path: Path) -> tuple[list[GroupMember], str]:
    try:
        value = read_facts(path)
        return [GroupMember(*founder) for founder in value["founders"]], str(value["layout"])
    except (KeyError, TypeError) as error:
        raise damaged(path, error) from None


def _other_layout(founders: Sequence[GroupMember]) -> CheckpointError:
    names = ", ".join(founder.name for founder in founders)
    return CheckpointError(
        f"what is stored for the aggregates over a join that {names} began is of another plan than this version of "
        "Sash makes of them; go on with the version that wrote the checkpoint, or DROP the queries over this join and "
        "register them again: they then begin with empty windows"
    )
