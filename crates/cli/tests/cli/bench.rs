//! `bench` with nothing else: how fast models read and write.

use crate::binary::{printed, said, synth, wgoose};
use std::path::Path;

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

/// Two models that are read and written little.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "one.gguf", "");
    synth(folder.path(), "two-again.gguf", "--mix Q8_0");
    folder
}

#[test]
fn bench_times_prefill_and_decode_and_leaves_no_file() {
    let folder = folder();
    let table = run(folder.path(), "bench one.gguf two-again.gguf --runs 2 -n 16");
    for part in ["medians of 2 runs", "tokens/s", "one.gguf (F16, ", "two-again.gguf (Q8_0, ", " MiB), default plan"] {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    let rows = |what: &str| table.lines().filter(|line| line.trim_start().starts_with(what)).count();
    assert_eq!((rows("prompt of 512 tokens"), rows("16 tokens written")), (2, 2), "{table}");
    assert!(table.lines().skip(2).all(|line| line.len() <= 80), "{table}");
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["one.gguf", "two-again.gguf"]);
}

#[test]
fn models_and_plans_are_lines_of_every_form() {
    let folder = folder();
    let with = |form: &str| run(folder.path(), &format!("bench one.gguf --plans found,default -p 5 -r 1 {form}"));
    let csv = with("--format csv");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0][0], lines[1][0]), (3, "model", "one.gguf"), "{csv}");
    assert!(csv.lines().nth(2).unwrap().contains(",prompt,prompt of 5 tokens,1,"), "{csv}");
    let markdown = with("--format md");
    assert_eq!(
        markdown.lines().filter(|line| line.contains(" | wgoose, default plan |  99 |             pp5 | ")).count(),
        2
    );
    for json in [with("--json"), with("--format json")] {
        let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((rows.len(), &rows[1]["rows"][0]["what"]), (2, &"prompt of 5 tokens".into()));
    }
}

/// The columns of github.com/RWKV-Vibe/RWKV-Inference-Performance-Test, which are those of llama-bench.
#[test]
fn markdown_has_the_rows_of_the_community_s_table() {
    let folder = folder();
    let page = run(folder.path(), "bench one.gguf --prompt-tokens 5 --decode 1,2 -n 3 --runs 2 --format md");
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let lines: Vec<Vec<String>> = page.lines().map(cells).collect();
    assert_eq!(lines[0], ["", "model", "size", "params", "backend", "ngl", "test", "t/s", ""], "{page}");
    for (line, test) in lines[2..4].iter().zip(["pp5", "tg3"]) {
        let [_, model, size, params, backend, ngl, job, speed, _] = &line[..] else { panic!("{page}") };
        assert_eq!(
            [model, size, backend, ngl, job],
            ["one.gguf", "0.84 MiB", "wgoose, default plan", "99", test],
            "{page}"
        );
        assert!(params.ends_with(" M") && speed.split(" ± ").all(|part| part.parse::<f64>().is_ok()), "{page}");
    }
    // Everything else is in a table of its own.
    assert!(page.contains("\n\n| model | MiB | plan | test | tokens/s |"), "{page}");
    assert!(page.contains("| one.gguf | 0.8 | default plan | 2 sequences write 3 | "), "{page}");
}

#[test]
fn a_title_is_recorded_where_it_is_asked_for() {
    let folder = folder();
    let line = "bench one.gguf --backend cpu --title -t --change --x --prefill-tokens 4 -n 2 -r 1 --cache .";
    let text = run(folder.path(), line);
    assert!(text.contains("not kept: --save FILE") && !folder.path().join("optimization_plan").exists(), "{text}");
    std::fs::create_dir(folder.path().join("here")).unwrap();
    assert!(run(folder.path(), &format!("{line} --save here/b.md")).ends_with("appended to here/b.md\n"));
    let report = std::fs::read_to_string(folder.path().join("here/b.md")).unwrap();
    assert!(report.contains("## -t\n") && report.contains("| --x | one.gguf | CPU reference |"), "{report}");
    // Before anything is measured.
    let output = wgoose(folder.path(), ["bench", "one.gguf", "none.gguf"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(said(output).contains("none.gguf"));
}
