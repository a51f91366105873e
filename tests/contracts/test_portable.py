"""The package is importable on every system that Python runs on, and says so where a system lacks what it needs.

Windows has no `fork`, no SIGHUP and no Unix sockets; `hasattr`, `getattr` with a default, `sys.platform` and `try` are the guards that
the static test knows.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES = words("curses fcntl grp posix pty pwd readline resource syslog termios tty uvloop")
NAMES = {
    # https://docs.python.org/3/library/os.html and others: each says "Availability: Unix".
    "os": words(
        "chown chroot eventfd fchdir fchmod fchown fdatasync fork forkpty fstatvfs getegid geteuid getgid getgroups getloadavg"
        " getpgid getpgrp getpriority getresuid getsid getuid initgroups killpg lchown lockf major memfd_create mkfifo mknod nice"
        " openpty pathconf pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev readv"
        " register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setegid seteuid setgid setpgid setsid setuid"
        " splice statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid writev O_CLOEXEC O_DIRECTORY O_DSYNC"
        " O_NOFOLLOW O_NONBLOCK O_SYNC WEXITSTATUS WIFEXITED WIFSIGNALED WNOHANG WTERMSIG"
    ),
    "signal": words(
        "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1"
        " SIGUSR2 SIGVTALRM SIGWINCH SIG_BLOCK SIG_SETMASK SIG_UNBLOCK alarm getitimer pause pidfd_send_signal pthread_kill"
        " pthread_sigmask setitimer siginterrupt sigpending sigtimedwait sigwait sigwaitinfo"
    ),
    "socket": words(
        "AF_UNIX MSG_DONTWAIT MSG_NOSIGNAL SCM_RIGHTS SO_REUSEPORT TCP_KEEPCNT TCP_KEEPIDLE TCP_KEEPINTVL TCP_QUICKACK"
        " TCP_USER_TIMEOUT recv_fds send_fds"
    ),
    "select": words("devpoll epoll kqueue poll"),
    "time": words("CLOCK_MONOTONIC clock_gettime pthread_getcpuclockid tzset"),
    "mmap": words("MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE"),
    "asyncio": words("open_unix_connection start_unix_server"),
}
METHODS = words("add_signal_handler create_unix_connection create_unix_server remove_signal_handler sendmsg")
"""Of event loops and sockets, whatever the object is called."""
PLATFORM = ("sys.platform", "os.name")
MISSING = words("AttributeError ImportError ModuleNotFoundError NotImplementedError")


def uses(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each node that needs a POSIX system, and the name that it needs."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found = [alias.name.partition(".")[0] for alias in node.names]
                yield from ((node, name) for name in found if name in MODULES)
            case ast.ImportFrom(module=str(module)):
                lacking = NAMES.get(module, frozenset())
                found = [module.partition(".")[0], *(alias.name for alias in node.names if alias.name in lacking)]
                yield from ((node, name) for name in found if name in MODULES | lacking)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in NAMES.get(module, ()):
                yield node, name
            case ast.Attribute(attr=name) if name in METHODS:
                yield node, name


def never_evaluated(tree: ast.Module) -> set[ast.AST]:
    """Return all nodes that only a type checker evaluates."""
    noted: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                noted.append(node.returns)
            case ast.arg() | ast.AnnAssign():
                noted.append(node.annotation)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                noted += node.body
    return {below for node in noted if node is not None for below in ast.walk(node)}


def is_guard(test: ast.expr, name: str) -> bool:
    """Return whether a condition asks for the platform, or for this very name."""
    asked = ast.unparse(test)
    return any(word in asked for word in PLATFORM) or ("hasattr(" in asked and f"'{name}'" in asked)


def is_skip(mark: ast.expr) -> bool:
    """Return whether a test's mark skips it where it cannot run."""
    return ast.unparse(mark).startswith(("pytest.mark.posix(", "pytest.mark.skipif("))


def is_module_skip(statement: ast.stmt) -> bool:
    return ast.unparse(statement).startswith("pytestmark = ") and is_skip(
        getattr(statement, "value", ast.Constant(None))
    )


def leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue) or ast.unparse(body[-1]).startswith(
        "pytest.skip("
    )


def encloses(outer: ast.AST, inner: ast.AST, name: str) -> bool:
    """Return whether a node guards what is inside it."""
    match outer:
        case ast.If(test=test) | ast.IfExp(test=test):
            return inner is not test and is_guard(test, name)
        case ast.BoolOp(values=values):
            return any(is_guard(value, name) for value in values if value is not inner)
        case ast.Try(body=body, handlers=handlers):
            caught = {word.id for one in handlers for word in ast.walk(one.type or one) if isinstance(word, ast.Name)}
            return inner in body and bool(MISSING & caught)
        case ast.FunctionDef(decorator_list=marks):
            return inner not in marks and any(map(is_skip, marks))
        case ast.Module(body=statements):
            return not isinstance(inner, ast.Import | ast.ImportFrom) and any(map(is_module_skip, statements))
    return False


def is_left_before(outer: ast.AST, inner: ast.AST, name: str) -> bool:
    """Return whether a guard that comes before a statement leaves its block."""
    # A lambda's and a conditional expression's body is one node, not a list.
    siblings: object = getattr(outer, "body", None)
    before = takewhile(lambda one: one is not inner, siblings) if isinstance(siblings, list) else ()
    return any(isinstance(one, ast.If) and is_guard(one.test, name) and leaves(one.body) for one in before)


def is_guarded(node: ast.AST, name: str, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a use is inside a guard, or behind one that leaves the function."""
    inner, outer = node, parents.get(node)
    while outer is not None:
        if encloses(outer, inner, name) or is_left_before(outer, inner, name):
            return True
        inner, outer = outer, parents.get(outer)
    return False


def unguarded(text: str) -> list[str]:
    """Return what a source uses that not every system has, without asking first."""
    tree = ast.parse(text)
    parents = {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
    noted = never_evaluated(tree)
    return [
        f"{getattr(node, 'lineno', 0)}: {name}"
        for node, name in uses(tree)
        if node not in noted and not is_guarded(node, name, parents)
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_posix_names_are_guarded(path: Path) -> None:
    """No source file uses a name that Windows lacks without asking for it first."""
    assert unguarded(path.read_text(encoding="utf-8")) == []


@pytest.mark.heavy
@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_skip_what_a_system_lacks(path: Path) -> None:
    """A test that uses a name that Windows lacks is marked `posix` with its reason, or asks for the name first."""
    assert unguarded(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.fork()",
        "import fcntl",
        "from signal import SIGHUP",
        "import signal\nENDS = (signal.SIGINT, signal.SIGHUP)",
        "def f(loop):\n    loop.add_signal_handler(2, print)",
        "import os\nif hasattr(os, 'getuid'):\n    os.fork()",
        "import os\ntry:\n    os.fork()\nexcept OSError:\n    pass",
        "import os, sys\ndef f():\n    if sys.platform == 'win32':\n        print()\n    os.fork()",
        "@pytest.mark.parametrize('n', [signal.SIGHUP])\n@pytest.mark.posix(reason='a signal')\ndef test(n): pass",
    ],
)
def test_the_check_finds_what_is_not_guarded(text: str) -> None:
    """A bare use is found, and so is one behind a guard that asks for another name, catches another error or goes on."""
    assert len(unguarded(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import os\nif hasattr(os, 'fork'):\n    os.fork()",
        "import sys\nif sys.platform != 'win32':\n    import fcntl",
        "import os, sys\ndef f():\n    if sys.platform == 'win32':\n        return\n    os.fork()",
        "try:\n    import uvloop\nexcept ModuleNotFoundError:\n    uvloop = None",
        "import signal\nENDS = getattr(signal, 'SIGHUP', None)",
        "import select\nasked: select.poll | None = None",
        "import os\nuser = os.getuid() if hasattr(os, 'getuid') else 0",
        "@pytest.mark.posix(reason='a child')\ndef test():\n    os.fork()",
    ],
)
def test_the_check_accepts_what_is_guarded(text: str) -> None:
    """A use that asks for the name or the platform first is accepted."""
    assert unguarded(text) == []


@pytest.mark.heavy
def test_every_module_loads_where_posix_names_are_missing() -> None:
    """All modules of the package can be imported on a system that has none of these names and modules."""
    argv = [sys.executable, "-W", "ignore", "-c", _WITHOUT_POSIX, repr(MODULES), repr(NAMES)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 — our own interpreter
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > len(SOURCES) // 2


_WITHOUT_POSIX = """
import importlib, pkgutil, sys

import demur

modules, names = eval(sys.argv[1]), eval(sys.argv[2])
optional = {"demur.__main__"}


def load():
    count = 0
    for found in pkgutil.walk_packages(demur.__path__, "demur."):
        if found.name in optional:
            continue
        importlib.import_module(found.name)
        count += 1
    return count


load()  # so that only our own modules are loaded again below, and no other package's
for name in [name for name in sys.modules if name.partition(".")[0] == "demur"]:
    del sys.modules[name]
for name in modules:
    sys.modules[name] = None
for module, lacking in names.items():
    for name in lacking:
        if hasattr(sys.modules.get(module), name):
            delattr(sys.modules[module], name)
sys.platform = "win32"
import demur

print(load())
"""
