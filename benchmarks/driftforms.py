"""Surface forms of loops for measuring alone: what was looked for was not chosen by them."""

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

ROBOT = Form(
    name="robot",
    calls=(
        ("move_to", '{"frame": "<word>", "x": 0.<const>, "y": 1.<const>}'),
        ("read_sensor", '{"name": "<thing>"}'),
        ("grip", '{"object": "<word>", "force": <const>}'),
        ("locate", '{"object": "<thing>", "camera": 2}'),
        ("battery", "{}"),
    ),
    steady=(
        "motion aborted: path to <word> is blocked",
        "<thing>: <const> lux",
        "grip failed, <word> slipped",
        "0 objects of class <thing>",
        "battery <const> %",
    ),
    volatile=(
        "motion aborted: path to <word> is blocked (goal 01J<id>, planned in <ms>ms)",
        "<thing>: <const> lux, stamp: <epoch>.<number>",
        "[<clock>.<ms>] [grip_node-<short>] grip failed, <word> slipped",
        "0 objects of class <thing>; frame_id=<number>; 3 minutes ago",
        "battery <const> %; uptime <number> s; node at 192.168.<const>.40:<number>",
    ),
    mistake=(
        "move_joint",
        '{"joint": <n>, "degrees": <n>5, "note": "<other>"}',
        "E-STOP active since <time>: joint <n> not moved",
    ),
    poll=("charge_state", "{}", "charging, <n> of <total> Wh, cell 30 C, <clock>"),
    item=("place", '{"object": "<word>", "slot": <n>}', "placed"),
    edit=("calibrate", '{"axis": "z", "offset": <n>}', "calibrated"),
    test=("measure", '{"what": "backlash"}', "<left> of 12 points out of tolerance (run <uuid>)"),
    test_fails=False,
)

TICKETS = Form(
    name="tickets",
    calls=(
        ("SucheTicket", "{'nr': <const>, 'system': '<word>'}"),
        ("LeseProtokoll", "{'datei': 'C:/logs/<word>.txt'}"),
        ("PruefeStatus", "{'auftrag': '<thing>-<const>'}"),
        ("ListeBenutzer", "{'gruppe': '<thing>'}"),
        ("HoleBericht", "{'name': '<word>', 'seite': 1}"),
    ),
    steady=(
        "Ticket <const>: offen, Bearbeiter <thing>",
        "WARNUNG: <word> antwortet nicht",
        "Auftrag <thing>-<const> wartet",
        "Gruppe <thing> hat <const> Benutzer",
        "Bericht <word> ist leer",
    ),
    volatile=(
        "Ticket <const>: offen, Bearbeiter <thing> (Abruf <time>, Vorgang <uuid>)",
        "<date> WARNUNG [<number>] <word> antwortet nicht nach <seconds> s",
        "Auftrag <thing>-<const> wartet seit <ms> ms, Token: <hex><short>",
        "Gruppe <thing> hat <const> Benutzer; Sitzung id=<id>",
        "Bericht <word> ist leer, erstellt <epoch>123",
    ),
    mistake=(
        "SetzeFeld",
        "{'nr': <n>, 'feld': '<other>', 'wert': 'neu<n>'}",
        "FEHLER 0x<short>: Datensatz ist gesperrt durch Benutzer <thing> seit <clock>",
    ),
    poll=("PruefeImport", "{'lauf': '<word>'}", "Import: <n> von <total> Zeilen, Stand <clock>"),
    item=("SchliesseTicket", "{'nr': <n>}", "geschlossen"),
    edit=("SetzeRegel", "{'regel': '<word>', 'grenze': <n>}", "gespeichert"),
    test=("PruefeRegeln", "{}", "<left> Verletzungen, Dauer <seconds> s"),
    test_fails=False,
)

STUDIO = Form(
    name="studio",
    calls=(
        ("render", "track=<word> from=0 to=<const>"),
        ("peak", "bus=<thing>"),
        ("import_clip", "path=D:/clips/<word>.wav"),
        ("plugin", "name=<thing> preset=<const>"),
        ("session_info", ""),
    ),
    steady=(
        "Render of <word> stopped: disk is full",
        "<thing>: clipped at <const> places",
        "cannot decode <word>.wav",
        "<thing>: licence not found",
        "tracks: <const>, dirty: yes",
    ),
    volatile=(
        "Render of <word> stopped: disk is full. Elapsed <clock>, job #<number>, temp file /tmp/<id>/out.raw",
        "<thing>: clipped at <const> places | measured <date>",
        "cannot decode <word>.wav (decoder 0x<hex>, attempt took <ms> ms)",
        "<thing>: licence not found; request-id: <uuid>; try again after <time>",
        "tracks: <const>, dirty: yes, saved_at=<epoch>, checksum <hex><hex>",
    ),
    mistake=(
        "automate",
        "track=<other> bar=<n> value=0.<n>",
        "ParameterError at <time>: lane <n> of track <other> is read-only (owner pid <number>)",
    ),
    poll=("render_state", "job=<word>", "bounce: bar <n> of <total>, buffer <seconds>s"),
    item=("normalize", "clip=<word>_<n>", "done"),
    edit=("set_gain", "bus=<thing> db=-<n>", "ok"),
    test=("loudness_check", "", "<left> sections too loud [<id>]"),
    test_fails=False,
)

CLINIC = Form(
    name="clinic",
    calls=(
        ("find_patient", '{"surname": "<word>", "ward": <const>}'),
        ("bed_state", '{"ward": <const>}'),
        ("lab_result", '{"sample": "<thing>", "kind": "blood"}'),
        ("doctor_on_call", '{"field": "<thing>"}'),
        ("open_letters", '{"for": "<word>"}'),
    ),
    steady=(
        "no patient <word> on ward <const>",
        "beds: <const>, free: 0",
        "sample <thing>: in the queue",
        "nobody is on call for <thing>",
        "<const> letters wait for a signature",
    ),
    volatile=(
        "no patient <word> on ward <const> [audit <uuid>]",
        "beds: <const>, free: 0, synced <date> 2026 by bot-<number>",
        "sample <thing>: in the queue since <clock>, analyser session <hex>",
        "<time> | nobody is on call for <thing> | reply time <ms> ms",
        "<const> letters wait for a signature (list generated at <epoch>, key <id>)",
    ),
    mistake=(
        "book_room",
        '{"room": "R<n>", "patient": "<other>", "minutes": <n>0}',
        "Refused: <other> has no consent on file (case <number>, checked <clock>)",
    ),
    poll=("transfer_state", '{"patient": "<word>"}', '{"pages_sent": <n>, "pages": <total>, "checked": "<clock>"}'),
    item=("print_label", '{"tube": <n>, "kind": "<word>"}', "printed"),
    edit=("set_dose", '{"drug": "<word>", "mg": <n>}', "stored"),
    test=("check_interactions", '{"plan": "<thing>"}', "<left> warnings (database of <date>)"),
    test_fails=False,
)

SEEN_ONCE = (BROWSER, CLUSTER, NOTEBOOK, OFFICE, ROBOT, TICKETS, STUDIO)
"""Measured once, and then again after changes that were made for what was missed: errors with numbers in them."""

HELD_BACK = (CLINIC,)
"""Written after the last change, and measured without one since."""
