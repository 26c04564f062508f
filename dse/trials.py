"""The trials of sweeps in any database that SQLAlchemy knows: every result kept, many of them in one transaction.

Optuna's own tables take one transaction for every parameter and attribute of a trial and are read anew for every
proposal. Here a trial is one row that is written once, when its result is there, so that

* a process that is killed leaves whole results and nothing half done,
* a batch costs one transaction, and a sweep is read once, when it is taken up.

Results do not depend on who computed them. Two processes on one sweep do its work twice, and the first row stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError
from tilewright.files import check_writable

if TYPE_CHECKING:
    import sqlalchemy

#: seconds that SQLite waits for another process to finish its transaction
_SQLITE_PATIENCE = 60
_NAME_LENGTH = 64
_TABLE = "tilewright_trials"


class StorageError(TilewrightError):
    """The database cannot be opened, read or written."""


@dataclass(frozen=True)
class Row:
    """What is kept of one evaluation."""

    params: dict[str, Any]
    outcome: dict[str, Any]  #: fields of an :class:`~tilewright.dse.evaluate.Outcome`, those at their defaults left out


class Trials:
    """The results of one sweep at ``url``. Raises :class:`StorageError` from every method."""

    def __init__(self, url: str, sweep: str) -> None:
        self.sweep = sweep
        self.engine, self._table = _open(url)
        self.shown = self.engine.url.render_as_string(hide_password=True)
        with self._transaction() as connection:
            self._table.metadata.create_all(connection)

    def read(self, fidelity: str) -> dict[int, Row]:
        """All results of a fidelity by the trial's number."""
        import sqlalchemy

        t = self._table
        wanted = sqlalchemy.select(t.c.number, t.c.params, t.c.outcome).where(
            t.c.sweep == self.sweep, t.c.fidelity == fidelity
        )
        with self._transaction() as connection:
            rows = connection.execute(wanted).all()
        return {number: Row(json.loads(params), json.loads(outcome)) for number, params, outcome in rows}

    def write(self, fidelity: str, rows: Mapping[int, Row]) -> None:
        """Keep results, in one transaction. Those that are there already stay as they are."""
        import sqlalchemy

        if not rows:
            return
        values = [
            {"sweep": self.sweep, "fidelity": fidelity, "number": number, "params": json.dumps(row.params),
             "outcome": json.dumps(row.outcome)}
            for number, row in rows.items()
        ]  # fmt: skip
        try:
            with self.engine.begin() as connection:
                connection.execute(self._table.insert(), values)
        except sqlalchemy.exc.IntegrityError:  # another process has written some of them
            there = self.read(fidelity)
            self.write(fidelity, {number: row for number, row in rows.items() if number not in there})
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _problem(self.engine, error) from error

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[sqlalchemy.Connection]:
        import sqlalchemy

        try:
            with self.engine.begin() as connection:
                yield connection
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _problem(self.engine, error) from error


def check_storage(url: str) -> None:
    """Raise :class:`StorageError` or :class:`FileError` for a database that cannot be had; makes none."""
    engine, _ = _open(url)
    import sqlalchemy

    file = engine.url.database if engine.url.get_backend_name() == "sqlite" else None
    try:
        if file and file != ":memory:":
            check_writable(file)
        if file is None or Path(file).exists():
            with engine.connect() as connection:
                sqlalchemy.inspect(connection).has_table(_TABLE)
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _problem(engine, error) from error
    finally:
        engine.dispose()


def _problem(engine: sqlalchemy.Engine, error: Exception) -> StorageError:
    shown = engine.url.render_as_string(hide_password=True)
    return StorageError(f"{shown}: the database cannot be used: {_first_line(error)}")


def _open(url: str) -> tuple[sqlalchemy.Engine, sqlalchemy.Table]:
    try:
        import sqlalchemy
    except ImportError as error:
        raise StorageError("exploring needs SQLAlchemy, which comes with: pip install 'tilewright[explore]'") from error
    try:
        parsed = sqlalchemy.make_url(url)
        options = {"timeout": _SQLITE_PATIENCE} if parsed.get_backend_name() == "sqlite" else {}
        # A connection that the server closed in the meantime is opened again.
        engine = sqlalchemy.create_engine(parsed, pool_pre_ping=True, connect_args=options)
    except (sqlalchemy.exc.SQLAlchemyError, ValueError) as error:
        raise StorageError(
            "the storage must be a URL such as sqlite:///trials.db or postgresql+psycopg://host/name: "
            + _first_line(error)
        ) from error
    except ImportError as error:
        raise StorageError(f"the storage's driver is not installed: {_first_line(error)}") from error
    table = sqlalchemy.Table(
        _TABLE, sqlalchemy.MetaData(),
        sqlalchemy.Column("sweep", sqlalchemy.String(_NAME_LENGTH), primary_key=True),
        sqlalchemy.Column("fidelity", sqlalchemy.String(_NAME_LENGTH), primary_key=True),
        sqlalchemy.Column("number", sqlalchemy.Integer, primary_key=True, autoincrement=False),
        sqlalchemy.Column("params", sqlalchemy.Text, nullable=False),
        sqlalchemy.Column("outcome", sqlalchemy.Text, nullable=False),
    )  # fmt: skip
    return engine, table


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error  # the driver's own words, without the statement
    return (str(cause).splitlines() or [type(cause).__name__])[0]
