# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in processes of their own: a stage in a child that reports by JSON lines, and
judges side by side."""
import json
import multiprocessing
import os
import subprocess
import tempfile
import traceback


def run_stage(name, seed, argv, say, **options):
    """The numbers that `argv`, which ends in answer(), prints; what it says is said."""
    sums, errors = None, tempfile.TemporaryFile("w+")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                          text=True, **options) as process:
        for line in process.stdout:
            told = json.loads(line)
            if "say" in told:
                say(told["say"])
            else:
                sums = told["sums"]
    errors.seek(0)
    if process.returncode != 0 or sums is None:
        raise RuntimeError("%s, seed %d, ended with %d: %s" % (
            name, seed, process.returncode, errors.read()[-4000:]))
    return sums


def answer(stage, *args):
    """The other side: stage(*args, say) -> numbers."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)                        # what children print is no answer

    def say(text):
        print(json.dumps({"say": text}), file=out)
    print(json.dumps({"sums": stage(*args, say)}), file=out)
    return 0


def in_parallel(workers, function, *args):
    """function(*args with the part's number in place of None) in so many processes."""
    context = multiprocessing.get_context("fork")
    parts = []

    def told(out, part):
        try:
            out.send(function(*(part if a is None else a for a in args)))
        except BaseException:
            out.send(traceback.format_exc())

    for part in range(workers):
        ours, theirs = context.Pipe(False)
        process = context.Process(target=told, args=(theirs, part))
        process.start()
        theirs.close()
        parts.append((process, ours))
    answers = []
    for process, pipe in parts:
        answers.append(pipe.recv())
        process.join()
    broken = [a for a in answers if isinstance(a, str)]
    if broken:
        raise RuntimeError(broken[0])
    return answers
