"""Kafka's command-line tools 4.1.1 in one JVM, which starts with the first of them and ends with this process.

A tool as a process of its own, `tests.support.java.run_kafka_tool`, takes two seconds of CPU. Here it takes a tenth.

- `Exit` of Kafka throws instead of ending the JVM, and hooks of a tool's end run when it has ended.
- Its jar is loaded again for each call: ConsoleConsumer, for one, counts records in a static field.
- Standard streams are the JVM's, so one tool runs at a time. Its log goes nowhere.

Left out: tools that run until they are stopped, other versions of Kafka, and Java's options. Some tools work in a hook
of the JVM's own end, and are processes too: VerifiableProducer and TransactionalMessageCopier.
"""

from __future__ import annotations

import atexit
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.java import KAFKA_VERSION, QUICK_OPTIONS, kafka_classpath
from tests.support.java_gateway import java_gateway

_TOOLS_JAR: Final = f"kafka-tools-{KAFKA_VERSION}.jar"
_EXIT: Final = "org.apache.kafka.common.utils.Exit"
_ENDED: Final = "the tool has asked for its end"


def run_kafka_tool(
    main_class: str, *arguments: str, stdin: str | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own command-line classes to its end; AssertionError when it fails."""
    done = _jvm_of_tools().run(main_class, arguments, stdin or "")
    if check and done.returncode != 0:
        raise AssertionError(
            f"{main_class} {' '.join(arguments)} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done


@cache
def _jvm_of_tools() -> _ToolsJvm:
    jars = sorted(Path(kafka_classpath().removesuffix("/*")).glob("*.jar"))
    tools = next(jar for jar in jars if jar.name == _TOOLS_JAR)
    stack = ExitStack()
    atexit.register(stack.close)
    classpath = ":".join(str(jar) for jar in jars if jar != tools)
    return _ToolsJvm(stack.enter_context(java_gateway(classpath, options=QUICK_OPTIONS)), tools)


class _ToolsJvm:
    """A JVM in which a tool's end is an error that `run` takes for it."""

    def __init__(self, jvm: Any, tools: Path) -> None:
        self._jvm = jvm
        self._tools = tools
        self._hooks, self._codes = (jvm.java.util.ArrayDeque() for _ in range(2))
        self._out, self._error = (jvm.java.io.ByteArrayOutputStream() for _ in range(2))
        # Once, since Scala's console keeps the stream that it has found first.
        jvm.java.lang.System.setOut(jvm.java.io.PrintStream(self._out, True))
        jvm.java.lang.System.setErr(jvm.java.io.PrintStream(self._error, True))
        self._replace_exit()

    def _replace_exit(self) -> None:
        """`Exit.exit(status, message)` notes the status and throws; hooks of the end are put into a list.

        Both are composed of method handles, because the Java that comes with pip's packages has no compiler.
        """
        jvm = self._jvm
        handles, type_of = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.invoke.MethodType.methodType
        proxies = jvm.java.lang.invoke.MethodHandleProxies
        number, nothing, boolean = (
            self._class(name).getField("TYPE").get(None) for name in ("Integer", "Void", "Boolean")
        )
        text, error = self._class("String"), self._class("Error")
        type_of_add = type_of(boolean, self._class("Object"))
        add = handles.publicLookup().findVirtual(self._class("java.util.Collection"), "add", type_of_add)

        throw = handles.throwException(nothing, error).bindTo(jvm.java.lang.Error(_ENDED))
        note = add.bindTo(self._codes).asType(type_of(nothing, number))
        ending = handles.foldArguments(
            handles.dropArguments(throw, 0, self._array("Class", [number, text])), note
        )
        procedure = proxies.asInterfaceInstance(self._class(f"{_EXIT}$Procedure"), ending)
        keep = add.bindTo(self._hooks).asType(type_of(nothing, self._class("Runnable")))
        keeping = handles.dropArguments(keep, 0, self._array("Class", [text]))
        adder = proxies.asInterfaceInstance(self._class(f"{_EXIT}$ShutdownHookAdder"), keeping)
        jvm.org.apache.kafka.common.utils.Exit.setExitProcedure(procedure)
        jvm.org.apache.kafka.common.utils.Exit.setHaltProcedure(procedure)
        jvm.org.apache.kafka.common.utils.Exit.setShutdownHookAdder(adder)

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name if "." in name else f"java.lang.{name}")

    def _array(self, kind: str, items: list[Any]) -> Any:
        """A Java array of a class of java.lang."""
        of_class = self._class(kind)
        made = self._jvm.java.lang.reflect.Array.newInstance(of_class, len(items))
        for place, item in enumerate(items):
            made[place] = item
        return made

    def run(
        self, main_class: str, arguments: tuple[str, ...], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """One tool until it has ended, with what it printed."""
        from py4j.protocol import Py4JJavaError

        jvm = self._jvm
        self._out.reset()
        self._error.reset()
        jvm.java.lang.System.setIn(jvm.java.io.ByteArrayInputStream(stdin.encode()))
        url = jvm.java.io.File(str(self._tools)).toURI().toURL()
        system = jvm.java.lang.ClassLoader.getSystemClassLoader()
        loader = jvm.java.net.URLClassLoader(self._urls(url), system)
        jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
        texts = self._array("String", list(arguments))
        main = loader.loadClass(main_class).getMethod("main", self._array("Class", [texts.getClass()]))
        thrown = None
        try:
            main.invoke(None, self._array("Object", [texts]))
        except Py4JJavaError as error:
            thrown = error.java_exception.getCause() or error.java_exception
        # A tool that takes its own end for a failure asks for another one: the first counts.
        code = self._codes.poll()
        self._codes.clear()
        if code is None and thrown is not None:
            code = 1  # as Java's own, which prints it, too
            thrown.printStackTrace()
        while (hook := self._hooks.poll()) is not None:
            hook.run()
        loader.close()
        said = [_before_the_end(stream.toString("UTF-8")) for stream in (self._out, self._error)]
        return subprocess.CompletedProcess([main_class, *arguments], code or 0, *said)

    def _urls(self, url: Any) -> Any:
        made = self._jvm.java.lang.reflect.Array.newInstance(self._class("java.net.URL"), 1)
        made[0] = url
        return made


def _before_the_end(text: str) -> str:
    """What a tool printed before it asked for its end, without what it said of that."""
    before, end, _ = text.partition(_ENDED)
    return before[: before.rfind("\n") + 1] if end else text
