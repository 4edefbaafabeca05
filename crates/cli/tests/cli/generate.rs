//! `wgoose generate` with several prompts: each text is what its prompt alone gives.

use crate::binary::{printed, synth, wgoose};
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
    let alone = ["goose", "swan", "duck"].map(|prompt| run(format!("generate tiny.gguf --prompt {prompt} {settings}")));
    for source in sources {
        let lines = run(format!("generate tiny.gguf {source} {settings}"));
        let mut seen = [false; 3];
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let index = line["prompt"].as_u64().unwrap() as usize;
            assert_eq!(format!("{}\n", line["text"].as_str().unwrap()), alone[index], "{source}");
            assert!(line["tokens"].as_u64().unwrap() <= 12);
            seen[index] = true;
        }
        assert_eq!((lines.lines().count(), seen), (3, [true; 3]), "{source}");
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
