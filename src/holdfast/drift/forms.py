"""Forms: how the calls of agents and their outcomes look, for loops that are made up."""

from __future__ import annotations

from typing import Final

from holdfast.drift.injection import Form

SHELL: Final = Form(
    name="shell",
    calls=(
        ("bash", '{"command": "systemctl status <word>"}'),
        ("bash", '{"command": "curl -s localhost:8080/health"}'),
        ("bash", '{"command": "tail -n 2 /var/log/<word>.log"}'),
        ("bash", '{"command": "git status --short"}'),
        ("bash", '{"command": "python3 check_<thing>.py"}'),
        ("bash", '{"command": "ls -la build/<word>"}'),
    ),
    steady=(
        "<word>.service: inactive (dead)",
        '{"status": "degraded", "queue": <const>}',
        "WARN <word> not ready\nWARN retrying",
        " M src/<thing>.py",
        "<thing>: <const> problems found",
        "total 0",
    ),
    volatile=(
        "<word>.service: inactive (dead) since <date> UTC; <seconds>s ago\n  Main PID: <number>",
        '{"status": "degraded", "queue": <const>, "at": "<time>", "request_id": "<id>"}',
        "<time> WARN <word>[<number>] not ready\n<time> WARN <word>[<number>] retrying",
        " M src/<thing>.py\n[took <ms> ms]",
        "<thing>: <const> problems found in <seconds>s (session <uuid>)",
        "total 0\ndrwxr-xr-x 2 root root 40 <date> .",
    ),
    mistake=(
        "bash",
        '{"command": "sed -i <n>d src/<word><n>.py && make <word>"}',
        "sed: couldn't open temporary file src/sed<id>: Permission denied",
    ),
    poll=("bash", '{"command": "cat progress.txt"}', "<time> copied <n> of <total> files"),
    item=("bash", '{"command": "mv in/<word>_<n>.csv out/"}', ""),
    edit=("bash", '{"command": "patch -p1 < fix_<n>.diff"}', "patching file src/<word>.py"),
    test=("bash", '{"command": "pytest -q"}', "<left> failed, 40 passed in <seconds>s"),
)

EDITOR: Final = Form(
    name="editor",
    calls=(
        ("view_file", '{"path": "/repo/<word>/main.py", "lines": [1, 40]}'),
        ("search", '{"query": "def <thing>", "path": "/repo"}'),
        ("run_tests", '{"target": "tests/test_<word>.py"}'),
        ("list_dir", '{"path": "/repo/<word>"}'),
        ("lint", '{"path": "/repo/<word>/main.py"}'),
    ),
    steady=(
        "1\timport os\n2\timport sys\n3\tdef <thing>():\n4\t    return <const>",
        "/repo/<word>/main.py:3:def <thing>():",
        "FAILED tests/test_<word>.py::test_<thing> - assert <const> == 7",
        "main.py\n__init__.py",
        "main.py:4:5: E501 line too long",
    ),
    volatile=(
        "[<clock>] 1\timport os\n2\timport sys\n3\tdef <thing>():\n4\t    return <const>",
        "/repo/<word>/main.py:3:def <thing>():\n1 match in <ms> ms",
        "FAILED tests/test_<word>.py::test_<thing> - assert <const> == <A at 0x<hex>>\n1 failed in <seconds>s",
        "main.py  <date>\n__init__.py  <date>",
        "main.py:4:5: E501 line too long\nrun <uuid> finished",
    ),
    mistake=(
        "edit_file",
        '{"path": "/repo/<word>/main.py", "old": "return <n>", "new": "return <n> + <n>"}',
        "Error: no match for `return <n>` in /repo/<word>/main.py. Check white space.",
    ),
    poll=("run_status", '{"run": "<word>"}', '{"state": "running", "step": <n>, "of": <total>, "updated": "<time>"}'),
    item=("edit_file", '{"path": "/repo/<word>/part_<n>.py", "old": "foo", "new": "bar"}', "The file was edited."),
    edit=("edit_file", '{"path": "/repo/<word>/main.py", "old": "a<n>", "new": "b<n>"}', "The file was edited."),
    test=("run_tests", '{"target": "tests"}', "<left> of 31 tests failed [<seconds>s]"),
)

SERVICE: Final = Form(
    name="service",
    calls=(
        ("get_order", '{"order_id": "W<const>"}'),
        ("search_flights", '{"from": "JFK", "to": "SFO", "date": "2026-05-<const>"}'),
        ("get_customer", '{"name": "<word>"}'),
        ("think", '{"thought": "I should check the <thing> of <word> again."}'),
        ("get_stock", '{"sku": "<word>-<const>"}'),
    ),
    steady=(
        '{"order_id": "W<const>", "status": "pending", "items": [{"sku": "<word>", "count": 2}]}',
        "[]",
        '{"name": "<word>", "tier": "gold", "orders": <const>}',
        "",
        '{"sku": "<word>-<const>", "stock": 0}',
    ),
    volatile=(
        '{"order_id": "W<const>", "status": "pending", "items": [{"sku": "<word>", "count": 2}], "etag": "<hex>"}',
        '{"results": [], "search_id": "<uuid>", "took_ms": <ms>}',
        '{"name": "<word>", "tier": "gold", "orders": <const>, "fetched_at": <epoch>}',
        "(noted at <clock>)",
        '{"sku": "<word>-<const>", "stock": 0, "as_of": "<time>", "trace_id": "<hex><hex>"}',
    ),
    mistake=(
        "book",
        '{"flight": "HAT<n>", "passenger": "<other>", "payment": <n>50}',
        "Error: payment amount does not add up (request <id>)",
    ),
    poll=("export_status", '{"export": "<word>"}', '{"done": <n>, "total": <total>, "checked_at": <epoch>}'),
    item=("send_invoice", '{"customer": "c-<n>"}', '{"ok": true}'),
    edit=("update_rule", '{"rule": "<word>", "value": <n>}', '{"ok": true}'),
    test=("validate", '{"scope": "all"}', '{"violations": <left>, "duration_ms": <ms>}'),
    test_fails=False,
)

FORMS: Final = (SHELL, EDITOR, SERVICE)
"""What training puts into runs."""
