#!/usr/bin/env python3
"""The layer check can fail: one rule broken at a time in a small tree made on the fly."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import layers

# A tree in which every rule is kept, although every forbidden thing is used where it may be.
GOOD = {
    "proto/crema_error.h": "/* crema_error. */\n",
    "proto/crema_window.h": '/* crema_window.\n * Pure: time is an argument. */\n#include "crema_error.h"\n',
    "proto/crema_window.c": '#include "crema_window.h"\n#include <stdlib.h>\n#include <sys/types.h>\n',
    "proto/wire/crema_body.h": '#include "crema.pb-c.h"\n#include <protobuf-c/protobuf-c.h>\n',
    "proto/wire/crema_wire.c": '#include "crema_body.h"\nsize_t n = protobuf_c_message_pack(body, bytes);\n',
    "proto/crema_clock.h": "/* crema_clock. */\n",
    "proto/crema_clock.c": '#include "crema_clock.h"\n#include <time.h>\n',
    "agent/agent.h": "/* agent. The reactor. */\n",
    "agent/agent.c": '#include "agent.h"\n#include <czmq.h>\n#include "crema_clock.h"\n',
    "sink/file/sink_h5.h": "/* sink_h5. */\n",
    "sink/file/sink_h5.c": '#include "sink_h5.h"\n#include <hdf5.h>\n',
    "agent/agent_high.c": "void\nagent_high(void)\n{\n    agent_low(); /* agent_high() */\n}\n",
    "agent/agent_low.c": "static int\ns_n(void)\n{\n    return 0; /* never agent_high() */\n}\n\nvoid\nagent_low(void)\n{\n}\n",
    "tests/test_sink_h5.c": '#include "sink_h5.h"\n#include "agent.h"\n#include <hdf5.h>\n',
}

# rule, file, what it then says
BROKEN = [
    ("program", "sink/sink.c", '#include "agent.h"\n'),
    ("program", "sink/sink.c", '#include "../agent/agent.h"\n'),
    ("program", "proto/crema_link.c", '  # include "sink_h5.h"\n'),
    ("pure", "proto/crema_window.c", '#include "crema_window.h"\n#include <stdio.h>\n'),
    ("pure", "proto/crema_window.c", "#include <sys/socket.h>\n"),
    ("pure", "proto/crema_window.c", "#include <czmq.h>\n"),
    ("pure", "proto/crema_window.c", '#include "crema_clock.h"\n'),
    ("pure", "proto/crema_window.c", '#include "../proto/crema_clock.h"\n'),
    ("pure", "proto/crema_error.h", "/* Reached through another header. */\n#include <time.h>\n"),
    ("http", "proto/scrape/crema_http.c", "#include <microhttpd.h>\n"),
    ("codec", "proto/crema_link.c", '#include "crema.pb-c.h"\n'),
    ("codec", "agent/agent.c", "#include <protobuf-c/protobuf-c.h>\n"),
    ("codec", "agent/agent.c", "crema__hello__unpack(NULL, n, bytes);\n"),
    ("codec", "agent/agent.c", "protobuf_c_message_pack(body, bytes);\n"),
    ("hdf5", "sink/sink.c", "#include <hdf5.h>\n"),
    ("hdf5", "aggregator/sink_h5.c", "#include <hdf5.h>\n"),
    ("room", "sink/store/sink_store.c", '#include "sink_h5.h"\n'),
    ("print", "sink/sink.c", 'int n = fprintf(stderr, "%s\\n", name);\n'),
    ("header", "agent/agent.h", "#include <czmq.h>\n"),
    ("circle", "agent/agent_low.c", "void\nagent_low(void)\n{\n    agent_high();\n}\n"),
]


def check(files):
    """Exit status and output of the check on a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = layers.main([root])
        return status, output.getvalue()


class LayersTest(unittest.TestCase):
    def test_a_tree_that_keeps_the_rules_is_accepted(self):
        self.assertEqual(check(GOOD), (0, "layers: 14 files, 1 pure modules, 0 broken\n"))

    def test_each_broken_rule_is_found(self):
        for rule, name, text in BROKEN:
            with self.subTest(rule=rule, name=name, text=text):
                status, output = check({**GOOD, name: text})
                self.assertEqual(status, 1)
                self.assertRegex(output, rf"(?m)^layers: {rule}: .*{name}")

    def test_a_tree_without_sources_is_refused(self):
        status, _ = check({})
        self.assertEqual(status, 2)


if __name__ == "__main__":
    unittest.main()
