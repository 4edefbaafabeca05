//! `wgoose chat`, typed into through a pipe.

use crate::binary::{printed, synth};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Settings with which the model says "A" (token 66) until it is ended.
const CHEAP: &str = "--backend cpu --temperature 0 --presence-penalty 0 --frequency-penalty 0 --logit-bias 66=1000";

fn start(folder: &Path, flags: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.arg("chat").arg("tiny.gguf").args(flags.split_whitespace()).current_dir(folder);
    command.env("XDG_RUNTIME_DIR", folder).env_remove("RUST_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Types everything at once; what was printed, and what was complained about.
fn typed(folder: &Path, flags: &str, lines: &str) -> (String, String) {
    let mut chat = start(folder, flags);
    chat.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = chat.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    (String::from_utf8(output.stdout).unwrap(), errors)
}

#[test]
fn each_line_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let flags = format!("{CHEAP} --max-tokens 3");
    assert_eq!(typed(folder.path(), &flags, "hi\n\nwhat?\n/quit\nnever said\n").0, "AAA\nAAA\n");
    assert_eq!(typed(folder.path(), &format!("{flags} --think"), "no end of line").0, "<thinkAAA\n");
    assert_eq!(typed(folder.path(), &flags, "\"\"\"one\n\ntwo\n\"\"\"\nthree\\\nfour\n").0, "AAA\nAAA\n");
    let line = format!("chat tiny.gguf --prompt hi {flags} --think --no-think --system be-kind");
    assert_eq!(printed(folder.path(), line.split_whitespace()), "AAA\n");
}

#[test]
fn conversations_are_reset_kept_and_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    // Which tokens are drawn depends on the device, and some have ends of lines in them: texts are compared whole.
    let flags = "--max-tokens 12 --seed 3 --top-p 0.9";
    let answers = |lines: &str| typed(folder.path(), flags, lines).0;
    let whole = answers("one\n/save chat.st\ntwo\n");
    let again = answers("one\n/reset\none\n/reset\n/load chat.st\ntwo\n");
    let second = answers("/load chat.st\ntwo\n");
    let first = whole.strip_suffix(&second).unwrap_or_else(|| panic!("{whole:?} does not end with {second:?}"));
    assert!([first, &second].iter().all(|answer| !answer.trim().is_empty()), "{whole:?} {second:?}");
    assert_eq!(again, [first, first, &second].concat());
    assert_ne!(answers("two\n"), second, "what was said before matters");
}

#[test]
fn a_file_without_a_chat_template_is_told() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "named.gguf", "");
    printed(folder.path(), "convert named.gguf tiny.gguf --set tokenizer.chat_template=".split(' '));
    let flags = format!("{CHEAP} --max-tokens 2");
    let is_told = |folder: &Path| typed(folder, &flags, "hi\n").1.contains("this file names no chat template");
    assert!(is_told(folder.path()));
    std::fs::rename(folder.path().join("named.gguf"), folder.path().join("tiny.gguf")).unwrap();
    assert!(!is_told(folder.path()));
}

#[test]
fn a_failed_command_is_reported_and_the_chat_continues() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let lines = "/nonsense\n/load nowhere.st\n/save no/folder/chat.st\nhi\n";
    let (answers, errors) = typed(folder.path(), &format!("{CHEAP} --max-tokens 2"), lines);
    assert_eq!(answers, "AA\n");
    let errors: Vec<&str> = errors.lines().filter(|line| line.starts_with("wgoose: ")).collect();
    for (error, names) in errors.iter().zip(["'/nonsense' is not a command", "nowhere.st", "no/folder/chat.st"]) {
        assert!(error.contains(names), "{error}");
    }
    assert_eq!(errors.len(), 3, "{errors:?}");
}

#[cfg(unix)]
#[test]
fn an_interruption_ends_the_answer_only() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let mut chat = start(folder.path(), &format!("{CHEAP} --max-tokens 100000000"));
    let (mut lines, mut answers) = (chat.stdin.take().unwrap(), BufReader::new(chat.stdout.take().unwrap()));
    for message in ["one\n", "two\n"] {
        lines.write_all(message.as_bytes()).unwrap();
        let mut begun = [0; 4];
        answers.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"AAAA");
        let kill = Command::new("kill").args(["-INT", &chat.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let mut rest = String::new();
        answers.read_line(&mut rest).unwrap();
        assert!(rest.ends_with('\n') && rest.trim_end().chars().all(|c| c == 'A'), "{rest}");
    }
    lines.write_all(b"/quit\n").unwrap();
    assert!(chat.wait().unwrap().success());
}

#[test]
fn answers_are_taken_back_and_given_anew() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let flags = "--backend cpu --max-tokens 12 --seed 3 --top-p 0.9 --stop-token 11";
    let answers = |lines: &str| {
        let (text, errors) = typed(folder.path(), flags, lines);
        (text.lines().map(str::to_owned).collect::<Vec<_>>(), errors)
    };
    let (said, _) = answers("one\ntwo\n/regen\n/undo\ntwo\n/system be brief\none\n");
    assert_eq!((said.len(), &said[3]), (5, &said[1]), "{said:?}");
    assert!(said[2] != said[1] && said[4] != said[0], "{said:?}");
    let (said, errors) = answers("/help\n/regen\n/undo\none\n");
    assert!(said.len() == 1 && errors.contains("/system TEXT") && errors.contains("nothing was said yet"), "{errors}");
    let (_, errors) = answers("one\n/save chat.st\n/regen\n");
    assert!(errors.contains("since the last /save or /load"), "{errors}");
    let (_, errors) = answers("/load chat.st\n/regen\n");
    assert!(errors.contains("since the last /save or /load"), "the file has the text: {errors}");
}
