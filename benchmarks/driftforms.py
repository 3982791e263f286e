"""Surface forms of loops that nothing was tuned on: they are for measuring alone."""

from __future__ import annotations

from holdfast.drift.injection import Form

BROWSER = Form(
    name="browser",
    calls=(
        ("click", '{"selector": "#<word>-submit", "tab": <const>}'),
        ("screenshot", '{"full": true}'),
        ("read_page", '{"url": "https://<word>.example.com/inbox"}'),
        ("wait_for", '{"text": "<thing>"}'),
        ("get_cookies", "{}"),
    ),
    steady=(
        "Element #<word>-submit is not clickable",
        "Saved screenshot (1280x800)",
        "<h1>Inbox</h1><p>You have <const> messages</p>",
        "Timed out waiting for text '<thing>'",
        "2 cookies: lang=en; consent=yes",
    ),
    volatile=(
        "[<clock>] Element #<word>-submit is not clickable (node <hex>)",
        "Saved screenshot (1280x800) as /tmp/shot-<id>.png",
        '<h1>Inbox</h1><p>You have <const> messages</p><input type="hidden" name="csrf" value="<hex><hex>">',
        "Timed out after <ms> ms waiting for text '<thing>'",
        "3 cookies: lang=en; consent=yes; session=<uuid>",
    ),
    mistake=(
        "type_text",
        '{"selector": "#field-<n>", "text": "<other>"}',
        "Could not find an element for '#field-<n>' at <time>",
    ),
    poll=(
        "read_page",
        '{"url": "https://<word>.example.com/upload"}',
        "<b>Uploading…</b> <n> MB of <total> MB, <clock>",
    ),
    item=("click", '{"selector": "#row-<n> .archive"}', "Clicked."),
    edit=("type_text", '{"selector": "#phone", "text": "0049<n>"}', "Typed."),
    test=("read_page", '{"url": "https://<word>.example.com/form"}', "<left> fields are invalid (rendered in <ms>ms)"),
    test_fails=False,
)

CLUSTER = Form(
    name="cluster",
    calls=(
        ("kubectl", "get pods -n <word>"),
        ("kubectl", "describe deployment <thing> -n <word>"),
        ("helm", "status <word>"),
        ("kubectl", "logs deploy/<thing> --tail=3"),
        ("terraform", "plan -target=module.<word>"),
    ),
    steady=(
        "NAME     READY  STATUS            RESTARTS\n<thing>  0/1    CrashLoopBackOff  <const>",
        "Replicas: 1 desired | 1 updated | 0 available",
        "STATUS: pending-upgrade\nREVISION: <const>",
        "panic: missing variable <thing>\nexit status 2",
        "Plan: <const> to add, 0 to change, 0 to destroy.",
    ),
    volatile=(
        "NAME  READY  STATUS  RESTARTS  AGE\n<thing>-<hex>-<id>  0/1  CrashLoopBackOff  <const>  <number>s",
        "Replicas: 1 desired | 1 updated | 0 available\nLast Update: <time>\nPod IP: 10.42.<const>.17",
        "LAST DEPLOYED: <date> 2026\nSTATUS: pending-upgrade\nREVISION: <const>",
        "<time> panic: missing variable <thing>\ngoroutine 1 [running]: main.go +0x<short>\nexit status 2",
        "Plan: <const> to add, 0 to change, 0 to destroy.\nAcquired lock <uuid> in <seconds>s",
    ),
    mistake=(
        "kubectl",
        "apply -f manifests/<other>-<n>.yaml",
        'Error from server (Forbidden): creating "manifests/<other>-<n>.yaml": pods is forbidden, uid <uuid>',
    ),
    poll=(
        "kubectl",
        "rollout status deploy/<word>",
        "Waiting: <n> out of <total> new replicas have been updated (<time>)",
    ),
    item=("kubectl", "label node node-<n> pool=<word>", "node labeled"),
    edit=("kubectl", "patch deployment <word> --patch cpu=<n>00m", "deployment.apps/<word> patched"),
    test=("kubectl", "get events -n <word> --field-selector type=Warning", "<left> warnings, newest <seconds>s ago"),
    test_fails=False,
)

NOTEBOOK = Form(
    name="notebook",
    calls=(
        ("run_cell", "df = load('<word>.parquet'); df.shape"),
        ("run_cell", "session.query(<thing>).count()"),
        ("run_sql", "select count(*) from <word> where state = 'open'"),
        ("run_cell", "model.summary()"),
        ("run_sql", "explain select * from <word> join <thing> using (key)"),
    ),
    steady=(
        "(<const>, 12)",
        "<const>",
        "count\n-----\n   <const>\n(1 row)",
        "<Model <word> with <const> layers>",
        "Hash Join  (cost=1.09 rows=<const> width=8)",
    ),
    volatile=(
        "(<const>, 12)\nCPU times: user <ms> ms, sys: <ms> ms, total: <seconds> s",
        "<const>\n-- Query <id> finished at <date>",
        "count\n-----\n   <const>\n(1 row)\n\nTime: <ms>.<ms> ms",
        "<Model <word> at 0x<hex> with <const> layers>",
        "Hash Join  (cost=1.09 rows=<const> width=8)\nPlanning Time: <seconds> ms\nExecution Time: <ms> ms",
    ),
    mistake=(
        "run_sql",
        "select <other>, sum(amount) from <word> group by <n>",
        "ERROR:  relation is locked by process <number>\nLINE <n>: select ...\nHINT:  Wait until it is free.",
    ),
    poll=("run_cell", "trainer.status()", "epoch <n>/<total> loss 0.<number> [<clock>]"),
    item=("run_sql", "insert into <word> values (<n>, 'x')", "INSERT 0 1"),
    edit=("run_cell", "params['depth'] = <n>", ""),
    test=("run_cell", "evaluate(model)", "<left> of 20 folds diverged, <seconds> s"),
    test_fails=False,
)

OFFICE = Form(
    name="office",
    calls=(
        ("search_mail", '{"query": "from:<word> is:unread", "limit": 5}'),
        ("get_event", '{"calendar": "<word>", "day": "next <thing>"}'),
        ("read_document", '{"title": "<word> plan"}'),
        ("list_tasks", '{"assignee": "<thing>"}'),
        ("get_balance", '{"account": "<const><const>"}'),
    ),
    steady=(
        "No messages match.",
        "There is no event on that day.",
        "# <word> plan\n1. Ask <thing>\n2. Wait for the answer",
        "[ ] call <word>\n[ ] order <const> chairs",
        "Balance: <const>.00 EUR",
    ),
    volatile=(
        "No messages match. (searched <date>, correlation id <uuid>)",
        "There is no event on that day. Synced <ms> ms ago, token=<hex>",
        "# <word> plan\n1. Ask <thing>\n2. Wait for the answer\n\nLast opened: Thu, 19 Nov 2026 <clock> GMT",
        "[ ] call <word>\n[ ] order <const> chairs\nrevision <hex>",
        "Balance: <const>.00 EUR\nStatement no. <epoch>, printed <time>",
    ),
    mistake=(
        "send_mail",
        '{"to": "<other>@example.com", "subject": "Offer <n>", "body": "Dear <other>, please find offer <n>."}',
        "554 5.7.1 rejected: message for <other>@example.com refused by policy [id=<id>]",
    ),
    poll=("get_task", '{"id": "<word>"}', '{"title": "import", "percent": <n>, "lastModified": "<time>"}'),
    item=("move_mail", '{"message": "<word>-<n>", "folder": "archive"}', "Moved."),
    edit=("edit_document", '{"title": "<word> plan", "replace": "draft <n>", "with": "final <n>"}', "Saved."),
    test=("check_document", '{"title": "<word> plan"}', "<left> comments are unresolved. Checked at <clock>."),
    test_fails=False,
)

HELD_BACK = (BROWSER, CLUSTER, NOTEBOOK, OFFICE)
