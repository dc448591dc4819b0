"""Every error kind: what it means, its exit code, and the way out.

`tunegate explain KIND` and docs/errors.md show this table. Kinds are never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What an error kind means, and the way out."""

    meaning: str
    exit_codes: tuple[int, ...]
    """Usually one; a fault of the disk has the code of whoever met it."""
    remedy: str


KINDS: dict[str, Kind] = {
    "internal": Kind(
        "A fault in Tunegate itself.",
        (1,),
        "Report it with the text of the error; the run folder is intact, and `tunegate status "
        "RUN` says where it stands.",
    ),
    "usage": Kind(
        "The command line is wrong: unknown option, missing argument, path that is not there.",
        (2,),
        "Read the message, then `tunegate VERB --help`.",
    ),
    "file_missing": Kind(
        "A file that the run file names is not there or cannot be read.",
        (2,),
        "Correct the path: those in a run file are relative to the run file's folder.",
    ),
    "spec_invalid": Kind(
        "The run file has one or more problems; each is listed with line and column.",
        (2,),
        "Mend every line that is listed; docs/run-file.md explains the keys, and `tunegate "
        "schema` lets an editor check them.",
    ),
    "data_invalid": Kind(
        "A data file cannot be read as rows; the message names file and line.",
        (2,),
        "Mend the line that is named. Nothing was written, and no row was skipped.",
    ),
    "file_edited": Kind(
        "A file that a stage wrote was changed by hand, or is damaged.",
        (2,),
        "Delete the file and run `tunegate go RUN`: its stage writes it again.",
    ),
    "unknown_name": Kind(
        "No framework, platform, check or metric is called so; the known are listed.",
        (2,),
        "Take one of the names that the hint lists.",
    ),
    "extra_missing": Kind(
        "An optional dependency is not installed; the hint holds the install command.",
        (2,),
        "Run the install command in the hint; `tunegate doctor` shows what is there.",
    ),
    "base_invalid": Kind(
        "The base model's folder is incomplete, or its content is not what was pinned.",
        (2,),
        "Fetch the base model again, or name another; a folder needs config, tokenizer and "
        "weights.",
    ),
    "check_failed": Kind(
        "A gate-2 check failed; its evidence file holds what was seen.",
        (3,),
        "Mend what the evidence names, then `tunegate go RUN`. A person may waive a check with "
        "a reason; an agent may not.",
    ),
    "check_missing": Kind(
        "A gate-2 check did not run or cannot tell; an open question opens no gate.",
        (3,),
        "`tunegate go RUN` runs what is missing, in order.",
    ),
    "check_stale": Kind(
        "Evidence was made for other inputs than the ones the run has now.",
        (3,),
        "`tunegate go RUN` runs again what is out of date.",
    ),
    "research_open": Kind(
        "Gate 1 has open questions or settings outside their band.",
        (3,),
        "Answer each point in the run file under `research.answers`, with its source, or change "
        "the setting.",
    ),
    "release_refused": Kind(
        "A person refused the release.",
        (3,),
        "Ask the person what should change. Nothing was spent.",
    ),
    "release_needed": Kind(
        "The run costs money or lies outside the policy: a person must release it.",
        (4,),
        "A person runs the command in the hint, in a terminal of their own. Do not retry.",
    ),
    "changed_since_release": Kind(
        "A digest that the release binds has changed.",
        (5,),
        "`tunegate go RUN` looks at what changed; a paid run needs a new release.",
    ),
    "release_expired": Kind(
        "The release is past its expiry, or was used already.",
        (5,),
        "Release again: `tunegate release RUN`.",
    ),
    "budget_reached": Kind(
        "The spend or time ceiling was reached and the run was stopped.",
        (6,),
        "The last checkpoint is kept. Raise `limits.hours` or `limits.money`, then `tunegate go "
        "RUN`, which resumes.",
    ),
    "environment_failed": Kind(
        "A framework's own environment could not be made, or its packages not be fetched.",
        (7,),
        "Give the machine network once, or an index that pip is configured for, then run the same "
        "command again.",
    ),
    "environment_changed": Kind(
        "Files of a framework's environment are not those that were installed.",
        (5,),
        "Delete the folder that the message names: the next command makes it anew.",
    ),
    "platform_failed": Kind(
        "The platform could not start, reach or read the job.",
        (7,),
        "Run the same command again: it goes on from the last checkpoint.",
    ),
    "nothing_trained": Kind(
        "The trainer ended, but the receipt does not prove that it trained.",
        (8,),
        "Read the attempt's log, which the error names: an exit code alone is never taken for "
        "success.",
    ),
    "eval_incomplete": Kind(
        "Rows are missing from a column, or a row was scored twice.",
        (9,),
        "`tunegate eval RUN` goes on with the rows that are missing.",
    ),
    "columns_differ": Kind(
        "Columns come from different rows or settings and cannot be compared.",
        (9,),
        "`tunegate eval RUN` fills the column again from one set of rows and settings.",
    ),
    "trainer_crashed": Kind(
        "The trainer ended with an error of its own; the end of its log is shown.",
        (10,),
        "Read the end of the log, mend the cause, then run the same command: it resumes.",
    ),
    "out_of_memory": Kind(
        "The trainer ran out of memory.",
        (10,),
        "Lower `train.batch_size` or `train.max_length`, or take a smaller base, then run the "
        "same command.",
    ),
    "diverged": Kind(
        "The loss became infinite or not a number.",
        (10,),
        "Lower `train.learning_rate`, or raise `train.warmup_steps`.",
    ),
    "disk_full": Kind(
        "No space is left where the run writes; the last complete checkpoint is intact.",
        (2, 7, 10),
        "Make room, then run the same command again: it goes on from the last checkpoint.",
    ),
    "checkpoint_damaged": Kind(
        "A checkpoint from another attempt is not, file by file, what was saved.",
        (5,),
        "Copy it again, or go on from an earlier one. Within an attempt this never stops a run: "
        "the checkpoint before it is taken.",
    ),
    "not_writable": Kind(
        "A folder or file cannot be read or written by this user.",
        (2, 7, 10),
        "Mend the folder's rights, or copy the run's inputs to a folder of your own.",
    ),
    "knowledge_lint": Kind(
        "A knowledge entry or a generated text breaks a rule.",
        (11,),
        "Mend the text that is named.",
    ),
    "run_busy": Kind(
        "Another command is working on this run; the holder is named.",
        (12,),
        "Wait for the holder to end, or `tunegate stop RUN`; `tunegate watch RUN` shows what it "
        "does.",
    ),
    "interrupted": Kind(
        "The command was interrupted; the next command goes on from where it stood.",
        (130,),
        "Run the same command again.",
    ),
}
