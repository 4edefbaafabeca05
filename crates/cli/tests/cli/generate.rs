//! `wgoose generate` with several prompts: each text is what its prompt alone gives.

use crate::binary::{npy, printed, synth, wgoose};
use serde_json::Value;

#[test]
fn prompts_are_continued_together_as_alone() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let settings =
        "--max-tokens 12 --top-p 0.9 --typical 0.9 --frequency-penalty 0.3 --seed 5 --logit-bias 42=-inf --stop e";
    let run = |line: String| printed(folder.path(), line.split(' '));
    std::fs::write(folder.path().join("prompts.txt"), "goose\nswan\nduck\n").unwrap();
    let sources =
        ["--prompt goose --prompt swan --prompt duck", "--prompts prompts.txt", "--prompts prompts.txt --together 2"];
    for mode in ["", " --batch-invariant"] {
        let alone = ["goose", "swan", "duck"]
            .map(|prompt| run(format!("generate tiny.gguf --prompt {prompt} {settings}{mode}")));
        for source in sources {
            let lines = run(format!("generate tiny.gguf {source} {settings}{mode}"));
            let mut seen = [false; 3];
            for line in lines.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                let index = line["prompt"].as_u64().unwrap() as usize;
                assert_eq!(format!("{}\n", line["text"].as_str().unwrap()), alone[index], "{source}{mode}");
                assert!(line["tokens"].as_u64().unwrap() <= 12);
                seen[index] = true;
            }
            assert_eq!((lines.lines().count(), seen), (3, [true; 3]), "{source}{mode}");
        }
    }
}

#[test]
fn the_reference_is_not_batch_invariant_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let line = "generate tiny.gguf --prompt a -n 1 --backend cpu --batch-invariant";
    let output = wgoose(folder.path(), line.split(' '));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("batch-invariant results need a GPU"), "{told}");
}

#[test]
fn texts_are_what_the_flags_say() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let schema = r#"{"type": "object", "properties": {"zip": {"enum": ["07743"]}, "age": {"enum": [3]}},
        "required": ["zip", "age"], "additionalProperties": false}"#;
    std::fs::write(folder.join("schema.json"), schema).unwrap();
    std::fs::write(folder.join("abc.gbnf"), "root ::= \"a\" [b] \"c\"").unwrap();
    let text = |flags: &[&str]| {
        let line = ["generate", "tiny.gguf", "--prompt", "goose", "--seed", "3", "--top-p", "1"];
        printed(folder, line.iter().chain(flags).copied())
    };
    let found: Value = serde_json::from_str(&text(&["--json-schema", "schema.json"])).unwrap();
    assert_eq!(found, serde_json::json!({ "zip": "07743", "age": 3 }));
    assert_eq!(text(&["--regex", "ho{3}nk"]), "hooonk\n");
    assert!(["goose\n", "swan\n"].contains(&text(&["--choice", "goose", "--choice", "swan"]).as_str()));
    assert_eq!(text(&["--grammar", "abc.gbnf", "--backend", "cpu"]), "abc\n");
    // The texts of several prompts are those of each alone.
    let together = text(&["--prompt", "swan", "--regex", "[a-z]{9}"]);
    let of_goose = together.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_goose = of_goose.filter(|line| line["prompt"] == 0).map(|line| line["text"].clone()).next().unwrap();
    assert_eq!(format!("{}\n", of_goose.as_str().unwrap()), text(&["--regex", "[a-z]{9}"]));
    for (flags, why) in [
        (["--regex", "("], "--regex: the regular expression cannot be honoured"),
        (["--json-schema", "abc.gbnf"], "--json-schema: abc.gbnf"),
        (["--grammar", "none"], "--grammar: none"),
    ] {
        let line = ["generate", "tiny.gguf", "--prompt", "goose"];
        let output = wgoose(folder, line.iter().chain(&flags).copied());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(why), "{told}");
    }
}

#[test]
fn stops_and_biases_are_heeded() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let text = |flags: &str| {
        let line = format!("generate tiny.gguf --backend cpu --prompt goose --max-tokens 5 --temperature 0 {flags}");
        printed(folder.path(), line.split_whitespace())
    };
    // Token 66 is "A": one token more than its byte.
    assert_eq!(text("--logit-bias 66=1000"), "AAAAA\n");
    assert_eq!(text("--logit-bias 66=1000 --stop AAA"), "\n");
    assert_eq!(text("--logit-bias 66=1000 --stop-token 66"), "\n");
    let output = wgoose(folder.path(), "generate tiny.gguf --prompt a --stop-token 66 --logit-bias 66=1000".split(' '));
    assert!(String::from_utf8(output.stderr).unwrap().contains(" 0 tokens generated"));
}

/// As `PIPELINE.generate` of the authors' package and llama.cpp have it: no token stands before a text. Only what
/// judges texts begins with token 0, to have a prediction of the first one.
#[test]
fn a_prompt_gets_no_token_0_and_eval_scores_its_first_token() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let (text, run) = ("goose", |line: &str| printed(folder, line.split(' ')));
    let ids: Vec<u32> = serde_json::from_str(&run(&format!("tokenize {text} --model tiny.gguf"))).unwrap();
    let logits = |ids: &[u32]| {
        std::fs::write(folder.join("ids.json"), serde_json::to_vec(ids).unwrap()).unwrap();
        run("dev logits tiny.gguf --tokens ids.json --out logits.npy --backend cpu");
        npy(&folder.join("logits.npy"))
    };
    let (rows, vocab, after) = logits(&ids);
    let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
    let next = best(&after[(rows - 1) * vocab..]) as u32;
    // A token that ends the text is not printed: it can be the only one that does.
    let ended = |token: u32| {
        let line = format!("generate tiny.gguf --backend cpu -p {text} -n 1 -t 0 --stop-token {token}");
        let output = wgoose(folder, line.split(' '));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("{} prompt tokens, ", ids.len())), "{said}");
        said.contains(" 0 tokens generated")
    };
    assert!(ended(next) && !ended(next ^ 1));

    std::fs::write(folder.join("text.txt"), text).unwrap();
    let score: Value = serde_json::from_str(&run("eval tiny.gguf --text text.txt --backend cpu --json")).unwrap();
    assert_eq!(score["tokens"], ids.len());
    let (_, _, rows) = logits(&[&[0], &ids[..ids.len() - 1]].concat());
    let nats = rows.chunks(vocab).zip(&ids).map(|(row, id)| {
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        sum.ln() - f64::from(row[*id as usize])
    });
    let bits = nats.sum::<f64>() / std::f64::consts::LN_2 / text.len() as f64;
    let said = score["bits_per_byte"].as_f64().unwrap();
    assert!((bits - said).abs() < 1e-5 * bits, "{bits} {said}");
}

/// Runs a command with this text on standard input.
fn piped(folder: &std::path::Path, line: &str, input: &[u8]) -> std::process::Output {
    use std::io::Write;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(line.split_whitespace()).current_dir(folder).env("XDG_RUNTIME_DIR", folder);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn prompts_come_from_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let cheap = "--backend cpu -n 6 -t 1 --top-p 1 -s 4";
    let run = |line: &str| printed(folder.path(), format!("generate tiny.gguf {cheap} {line}").split_whitespace());
    let alone = run("-p a-goose");
    std::fs::write(folder.path().join("prompt.txt"), "\u{feff}a-goose\r\n").unwrap();
    assert_eq!(run("--file prompt.txt"), alone);
    assert_eq!(run("-f prompt.txt --echo"), format!("a-goose{alone}"));
    for line in ["", "--file -"] {
        let output = piped(folder.path(), &format!("generate tiny.gguf {cheap} {line}"), b"a-goose\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), alone);
    }
    let none = piped(folder.path(), "generate tiny.gguf", b"");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr).unwrap().contains("there is no prompt: give --prompt TEXT, --file FILE"));
    // A text may begin as options do.
    let dashed = ["generate", "tiny.gguf", "--backend", "cpu", "-n", "2", "--echo", "--prompt", "- a"];
    assert!(printed(folder.path(), dashed).starts_with("- a"));
}

#[test]
fn a_text_continues_from_a_state() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let run = |line: &str| {
        let line = format!("generate tiny.gguf --backend cpu -t 0 {line}");
        printed(folder.path(), line.split_whitespace())
    };
    let whole = run("-p goose-and-swan -n 4");
    assert_eq!(run("-p goose -n 0 --save-state half.st"), "\n");
    assert_eq!(run("--state half.st -p -and-swan -n 4"), whole);
    // All that was printed is in the state.
    let first = run("-p goose -n 3 --save-state more.st");
    let first = first.trim_end_matches('\n');
    let rest = run("--state more.st -p ! -n 4");
    assert_eq!(run(&format!("-n 4 --prompt=goose{first}!")), rest);
    let several = run("--state half.st -p -and-swan -p -and-duck -n 4");
    let lines: Vec<Value> = several.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let swan = lines.iter().find(|line| line["prompt"] == 0).unwrap();
    assert_eq!(format!("{}\n", swan["text"].as_str().unwrap()), whole);
}

#[test]
fn files_of_prompts_keep_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let jsonl =
        "\u{feff}{\"id\": 7, \"text\": \"goose\"}\n\n  \n{\"id\": \"s\", \"text\": \"swan\", \"more\": 1}\n\"duck\"\n";
    std::fs::write(folder.path().join("prompts.jsonl"), jsonl).unwrap();
    let run = |flags: &str| {
        let line = format!("generate tiny.gguf --prompts prompts.jsonl --logit-bias 11=1000 -t 0 -n 3 {flags}");
        let text = printed(folder.path(), line.split_whitespace());
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.sort_by_key(|line| line["prompt"].as_u64());
        lines
    };
    // Token 11 is the end of a line.
    let lines = run("");
    assert_eq!(
        lines.iter().map(|line| line.get("id").cloned()).collect::<Vec<_>>(),
        [Some(7.into()), Some("s".into()), None]
    );
    assert!(lines.iter().all(|line| line["finish_reason"] == "length" && line["text"] == "\n\n\n"), "{lines:?}");
    let stopped = run("--stop \\n\\n");
    assert!(stopped.iter().all(|line| line["finish_reason"] == "stop" && line["text"] == ""), "{stopped:?}");
    std::fs::write(folder.path().join("one.txt"), "\ngoose\n").unwrap();
    let one = printed(folder.path(), "generate tiny.gguf --backend cpu --prompts one.txt -n 1".split(' '));
    assert_eq!(serde_json::from_str::<Value>(&one).unwrap()["prompt"], 0);
}
