//! The tests that failed, read from what a test runner prints: nextest, cargo's own, or pytest.

use std::collections::BTreeMap;
use std::fmt;

/// Lines of a message that are repeated.
const SAID: usize = 6;

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FailedTest {
    name: String,
    /// Its program, as options of `cargo test`; `None`: a test in Python.
    program: Option<String>,
    /// Where, and with which message.
    why: String,
}

impl fmt::Display for FailedTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedTest { name, program, why } = self;
        let why = why.replace('\n', "\n    ");
        let alone = match program {
            Some(program) => format!("cargo test --workspace {program} -- --exact {name}"),
            None => format!("the command of pytest above, with {name} in place of the folder"),
        };
        write!(f, "  {name}\n    {why}\n    alone: {alone}")
    }
}

/// The tests that failed in a run, in the order in which they did.
pub(crate) fn read(output: &str) -> Vec<FailedTest> {
    let messages = messages(output);
    let mut program = String::new();
    let mut found: Vec<FailedTest> = Vec::new();
    for line in output.lines() {
        if let Some(running) = line.trim_start().strip_prefix("Running ") {
            program = program_of_source(running);
        }
        let Some((name, program, said)) = failed_in(line, &program) else { continue };
        if found.iter().any(|test| test.name == name && test.program == program) {
            continue;
        }
        let why = messages.get(&*name).cloned().or(said).unwrap_or_else(|| "it was ended from outside".to_owned());
        found.push(FailedTest { name, program, why });
    }
    found
}

/// The test that a line says has failed, its program, and its message if that is there.
fn failed_in(line: &str, running: &str) -> Option<(String, Option<String>, Option<String>)> {
    // pytest: FAILED tests/test_x.py::test_y - AssertionError: ...
    if let Some(test) =
        line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")).filter(|t| t.contains("::"))
    {
        let (name, why) = test.split_once(" - ").map_or((test, None), |(name, why)| (name, Some(why.to_owned())));
        return Some((name.to_owned(), None, why));
    }
    // libtest: test a::b ... FAILED
    if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
        return Some((name.to_owned(), Some(running.to_owned()), None));
    }
    // nextest: FAIL [   0.1s] (12/90) wgoose-tuner::tuner search::found
    let (status, rest) = line.trim_start().split_once(" [")?;
    let is_failure = ["FAIL", "TIMEOUT", "ABORT", "LEAK-FAIL"].contains(&status) || status.starts_with("SIG");
    let (_, rest) = rest.split_once("s]").filter(|_| is_failure)?;
    let mut words = rest.split_whitespace().rev();
    let (name, id) = (words.next()?, words.next()?);
    Some((name.to_owned(), Some(program_of_id(id)), None))
}

/// The options of a program that nextest names: `package`, `package::test` or `package::bin/name`.
fn program_of_id(id: &str) -> String {
    match id.split_once("::") {
        None => "--lib".to_owned(),
        Some((_, target)) => match target.strip_prefix("bin/") {
            Some(bin) => format!("--bin {bin}"),
            None => format!("--test {target}"),
        },
    }
}

/// The options of a program that cargo runs: `unittests src/lib.rs (...)` or `tests/cli/main.rs (...)`.
fn program_of_source(running: &str) -> String {
    if let Some(test) = running.strip_prefix("tests/") {
        let end = test.find(['/', '.', ' ']).unwrap_or(test.len());
        return format!("--test {}", &test[..end]);
    }
    if running.starts_with("unittests src/lib.rs") { "--lib".to_owned() } else { "--bins".to_owned() }
}

/// The message of each thread that panicked, by the thread's name, which is that of the test: where, and the lines that follow.
fn messages(output: &str) -> BTreeMap<&str, String> {
    let mut messages = BTreeMap::new();
    let mut lines = output.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        let Some((name, place)) = line.strip_prefix("thread '").and_then(|rest| rest.split_once('\'')) else {
            continue;
        };
        let Some((_, place)) = place.split_once("panicked at ") else { continue };
        let is_message =
            |line: &&str| !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("stack backtrace");
        let said: Vec<&str> = [place].into_iter().chain(lines.by_ref().take_while(is_message).take(SAID)).collect();
        messages.entry(name).or_insert_with(|| said.join("\n"));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(output: &str) -> Vec<String> {
        read(output).iter().map(ToString::to_string).collect()
    }

    const ALONE: &str = "  search::found\n    crates/tuner/tests/tuner/search.rs:9:5:\n    assertion `left == right` failed\n      \
                         left: 1\n    alone: cargo test --workspace --test tuner -- --exact search::found";

    #[test]
    fn failures_of_nextest_are_read() {
        let output = "        PASS [   0.010s] (1/2) wgoose-graph legality::tests::ok\n\
                      \x20       FAIL [   0.012s] (2/2) wgoose-tuner::tuner search::found\n  stderr ───\n\n    \
                      thread 'search::found' (7) panicked at crates/tuner/tests/tuner/search.rs:9:5:\n    \
                      assertion `left == right` failed\n      left: 1\n    note: run with `RUST_BACKTRACE=1`\n\
                      \x20    Summary [ 1.0s] 2 tests run: 1 passed, 1 failed\n\
                      \x20       FAIL [   0.012s] (2/2) wgoose-tuner::tuner search::found\n";
        assert_eq!(shown(output), [ALONE.replace("      left", "    left")]);
        let killed = shown("     SIGSEGV [   0.1s] (1/1) wgoose::bin/wgoose options::tests::parse\n");
        assert!(
            killed[0].contains("ended from outside") && killed[0].contains("--bin wgoose -- --exact"),
            "{killed:?}"
        );
    }

    #[test]
    fn failures_of_cargo_are_read() {
        let output = "     Running unittests src/lib.rs (target/debug/deps/wgoose_graph-1)\ntest a::b ... ok\n\
                      \x20    Running tests/tuner/main.rs (target/debug/deps/tuner-1)\ntest search::found ... FAILED\n\nfailures:\n\n\
                      ---- search::found stdout ----\n\
                      thread 'search::found' (7) panicked at crates/tuner/tests/tuner/search.rs:9:5:\n\
                      assertion `left == right` failed\nleft: 1\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(shown(output), [ALONE.replace("      left", "    left")]);
        assert_eq!(shown("test a::b ... ok\n   Compiling [x] s] y z\n"), [""; 0]);
    }

    #[test]
    fn failures_of_pytest_are_read() {
        let output = "FAILED crates/python/tests/test_text.py::test_a - AssertionError: assert 1 == 2\n";
        let shown = shown(output);
        assert!(
            shown[0].starts_with("  crates/python/tests/test_text.py::test_a\n    AssertionError: assert 1 == 2\n")
        );
    }
}
