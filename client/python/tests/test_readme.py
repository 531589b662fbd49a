"""The programs of the README, as printed but for the addresses."""

import ast
import asyncio
import inspect
import os
import re
import unittest

from weirlimit import LimitedError

from .server import HERE, Script

LIMITED = {"json": [7], "headers": {"RateLimit": '"a";r=0;t=3600'}}


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.script = Script()
        self.addCleanup(self.script.close)
        with open(os.path.join(HERE, "..", "README.md"), encoding="utf-8") as f:
            self.programs = re.findall(r"(?s)```python\n(.*?)```", f.read())

    def test_a_service_is_asked(self):
        refused = []
        self.script.replies = [{"say": "refused"}]
        text = self.programs[0].replace("Options(", f'Options(url="{self.script.url}", budget=5, ')
        names = {"refuse": refused.append}
        exec(text, names)
        names["limits"].close()
        self.assertEqual(refused, [10])

    def test_an_api_is_asked(self):
        self.assertEqual(len(self.programs), 5)
        for text in self.programs[1:]:
            with self.subTest(text):
                self.assertLessEqual(text.count("\n"), 10)
                self.script.replies, self.script.calls = [LIMITED], 0
                asyncio.run(self.program(text.replace("https://api.example.com", self.script.url).replace('"https://"', '"http://"')))

    async def program(self, text):
        """Runs a program, and its last line once more, which finds that the API has nothing left."""
        try:
            names = await run(ast.parse(text), {})
        except ImportError as err:
            raise unittest.SkipTest(str(err)) from None
        self.assertEqual(names["orders"], [7])
        last = ast.Module(ast.parse(text).body[-1:], [])
        with self.assertRaises(LimitedError):
            await run(last, names)
        self.assertEqual(self.script.calls, 1)
        client = names.get("session") or names.get("client")
        if client is not None:
            closed = client.aclose() if hasattr(client, "aclose") else client.close()
            if inspect.isawaitable(closed):
                await closed


async def run(program, names):
    """Runs a program that may await, and returns its names."""
    result = eval(compile(program, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result
    return names


if __name__ == "__main__":
    unittest.main()
