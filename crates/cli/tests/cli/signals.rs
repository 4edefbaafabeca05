//! Ctrl-C, SIGTERM and SIGKILL in the middle of a long write: no part of a file stays.

use crate::binary::{printed, synth};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Sends a signal to a run once it has begun a file beside the one it makes; how it ended, and what it said.
fn interrupted(folder: &Path, line: &str, signal: &str) -> (ExitStatus, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(line.split(' ')).current_dir(folder).env("XDG_RUNTIME_DIR", folder).env_remove("RUST_LOG");
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun =
        |name: &String| name.starts_with(".wgoose-") && std::fs::metadata(folder.join(name)).is_ok_and(|m| m.len() > 0);
    while !names(folder).iter().any(begun) {
        assert!(run.try_wait().unwrap().is_none(), "{line}: it ended before it could be interrupted");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

const LARGE: &str = "dev synth large.gguf --layers 8 --width 1024 --vocab 65536 --mix F32";

#[test]
fn a_signal_ends_a_run_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (status, said) = interrupted(folder.path(), LARGE, signal);
        assert_eq!((status.code(), said.as_str()), (Some(code), "wgoose: interrupted\n"));
        assert_eq!(names(folder.path()), [""; 0], "after {signal}");
    }
}

#[test]
fn the_next_run_removes_the_leavings_of_a_killed_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, _) = interrupted(folder, LARGE, "-KILL");
    assert_eq!(status.code(), None);
    let left = names(folder);
    assert!(left.len() == 1 && left[0].starts_with(".wgoose-"), "{left:?}");
    synth(folder, "tiny.gguf", "");
    assert_eq!(names(folder), ["tiny.gguf"]);
    printed(folder, "convert tiny.gguf other.gguf".split(' '));
    assert_eq!(names(folder), ["other.gguf", "tiny.gguf"]);
}
