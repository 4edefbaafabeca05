//! A user's own kernels: the binary lists, checks, tests, times and tunes a WGSL file of a folder.

use crate::binary::{printed, synth, wgoose};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A variant of embed that nobody has: two elements a thread.
const PAIRS: &str = "// idea: two elements per thread.
// grid: ceil_div(rows * m / 2, WG)
#import lib/op
#import lib/quant/* as table binding 2

const_assert M % 2u == 0u;  // rows of whole pairs

const WG: u32 = 64u;        // tune: 64 128
const M: u32 = 2u;          // op: m

@group(0) @binding(1) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = 2u * (workgroup_index(workgroup, grid) * WG + tid);
    if i >= params.rows * M {
        return;
    }
    let row = tokens[i / M];
    if row >= params.first && row - params.first < params.shard_rows {
        let at = (row - params.first) * M + i % M;
        y[i] = table_value(at);
        y[i + 1u] = table_value(at + 1u);
    }
}
";

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::create_dir_all(folder.path().join("mine/ops/embed")).unwrap();
    write(folder.path(), text);
    folder
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("mine/ops/embed/pairs.wgsl"), text).unwrap();
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_new_file_is_listed_tested_timed_and_swept() {
    let folder = folder(PAIRS);
    let folder = folder.path();
    let list = printed(folder, words("dev kernel --kernels mine"));
    assert!(list.contains("pairs") && list.contains("two elements per thread. (new)"), "{list}");

    let line = "dev kernel embed/pairs --kernels mine --model tiny.gguf --cases 4 --tokens 1,2 --budget 1";
    let told = printed(folder, words(line));
    assert!(told.contains("embed/pairs: two elements per thread.\n  right: "), "{told}");
    for tokens in [1, 2] {
        let timed = told.split(&format!("in a pass of {tokens} tokens: 1 of them\n")).nth(1).unwrap();
        let rows: Vec<&str> = timed.lines().take(2).collect();
        assert!(rows.iter().all(|row| row.contains(" us ")), "{told}");
        assert!(["embed/pairs WG=", "embed/elements WG="].iter().all(|v| rows.iter().any(|r| r.contains(v))), "{told}");
    }
    let own = include_str!("../../../../kernels-wgsl/ops/embed/elements.wgsl");
    std::fs::write(folder.join("mine/ops/embed/copy.wgsl"), own.replace("// default: 10\n", "")).unwrap();
    let told = printed(
        folder,
        words("dev kernel embed/copy --kernels mine --model tiny.gguf --cases 1 --tokens 2 --budget 1"),
    );
    std::fs::remove_file(folder.join("mine/ops/embed/copy.wgsl")).unwrap();
    assert!(told.contains("  copy beside elements: identical\n") && told.contains("(identical to elements)"), "{told}");
    let verdict = told.lines().find_map(|line| line.strip_prefix("  copy beside pairs: ")).unwrap();
    let words_of_verdict = ["FAST x", "SLOW x", "SAME x", "AMBIGUOUS x"];
    assert!(words_of_verdict.iter().any(|w| verdict.starts_with(w)) && verdict.contains(" to "), "{verdict}");

    let lerp = printed(folder, words("dev kernel lerp --model tiny.gguf --cases 1 --tokens 2"));
    assert!(lerp.contains("not in the default plan, which fuses it into another op"), "{lerp}");

    // Before its sibling: the shortest sweep times the default kernels of such ops.
    write(folder, &PAIRS.replacen("#import", "// default: 5\n#import", 1));
    // A sweep goes on without a file that is wrong, and says so.
    std::fs::write(folder.join("mine/ops/embed/broken.wgsl"), PAIRS.replace("// idea:", "// ideas:")).unwrap();
    let swept = wgoose(folder, words("tune tiny.gguf --kernels mine --out plan.ron --budget 2 --chunks 16"));
    assert!(swept.status.success(), "{}", stderr(&swept));
    for said in ["pairs.wgsl: new, used", "a file is left out: ops/embed/broken.wgsl:1: there is no directive 'ideas'"]
    {
        assert!(stderr(&swept).contains(said), "{}", stderr(&swept));
    }
    let ledger = std::fs::read_to_string(folder.join("plan.jsonl")).unwrap();
    assert!(ledger.lines().any(|line| line.contains("\"variant\":\"pairs\"") && line.contains("samples_ns")));
}

#[test]
fn the_sanitizer_names_the_lines_of_a_race_and_fails() {
    let folder = folder(PAIRS);
    let line = "dev kernel embed/pairs --kernels mine --sanitize";
    let clean = printed(folder.path(), words(line));
    assert!(clean.contains("  clean: "), "{clean}");
    let store = "y[i + 1u] = table_value(at + 1u);";
    write(folder.path(), &PAIRS.replace(store, "y[(i + 2u) % (params.rows * M)] = table_value(at + 1u);"));
    let output = wgoose(folder.path(), words(line));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(stderr(&output).contains("the sanitizer found faults: embed/pairs"), "{}", stderr(&output));
    let at = |code: &str| 1 + PAIRS.lines().position(|line| line.contains(code)).unwrap();
    let race = told.split("  race on y (").nth(1).unwrap();
    for code in ["y[i] = ", store] {
        assert!(race.contains(&format!("ops/embed/pairs.wgsl:{}: write", at(code))), "{told}");
    }
}

#[test]
fn a_wrong_kernel_is_shrunk_saved_and_run_again() {
    let wrong = PAIRS.replace("table_value(at + 1u)", "table_value(at)");
    let folder = folder(&wrong);
    let folder = folder.path();
    let output = wgoose(folder, words("dev kernel embed/pairs --kernels mine --tokens 0"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(21), "{told}");
    assert!(stderr(&output).contains("wgoose: WRONG: embed/pairs"), "{}", stderr(&output));
    assert!(told.contains("WRONG: embed/pairs WG=") && told.contains("smallest case: "), "{told}");

    let again = "dev kernel --case embed-pairs.case.json --kernels mine";
    assert!(told.contains(&format!("saved: wgoose {again} runs it")), "{told}");
    assert_eq!(wgoose(folder, words(again)).status.code(), Some(1));
    write(folder, PAIRS);
    assert!(printed(folder, words(again)).ends_with("right\n"));
    let elsewhere = wgoose(folder, words("dev kernel --case embed-pairs.case.json"));
    assert!(stderr(&elsewhere).contains("embed/pairs"), "{}", stderr(&elsewhere));
}

#[test]
fn a_file_that_is_no_kernel_is_an_error_with_its_place_everywhere() {
    let folder = folder(PAIRS);
    let folder = folder.path();
    for (from, to, place) in [
        ("// grid: ceil_div(rows * m / 2, WG)", "// grid: ceil_div(rows", "pairs.wgsl:2: "),
        ("// idea:", "// ideas:", "pairs.wgsl:1: there is no directive 'ideas'"),
        ("#import lib/op", "#import lib/opp", "pairs.wgsl:3: "),
        ("table_value(at);", "table_value(at, 1u);", "pairs.wgsl:27: "),
    ] {
        write(folder, &PAIRS.replace(from, to));
        for line in ["dev kernel embed/pairs --kernels mine --tokens 0", "dev kernel embed --kernels mine --tokens 0"] {
            let output = wgoose(folder, words(line));
            assert_eq!(output.status.code(), Some(1), "{to}");
            assert!(stderr(&output).contains(place), "{}", stderr(&output));
        }
    }
    // One that replaces a kernel is used, and every command says so.
    std::fs::remove_file(folder.join("mine/ops/embed/pairs.wgsl")).unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl/ops/embed/elements.wgsl");
    let text = std::fs::read_to_string(own).unwrap();
    std::fs::write(folder.join("mine/ops/embed/elements.wgsl"), text + "\n// Another end.\n").unwrap();
    let run = wgoose(folder, words("generate tiny.gguf --prompt a --max-tokens 1 --kernels mine"));
    assert!(stderr(&run).contains("elements.wgsl: differs from this program's, used"), "{}", stderr(&run));
}

/// Every verb that runs a model, with the least that it needs.
const RUNNING: &[&str] = &[
    "verify tiny.gguf --cache cache",
    "dev logits tiny.gguf --tokens ids.json --out logits.npy",
    "dev trace tiny.gguf --tokens ids.json --first-divergence",
    "generate tiny.gguf --prompt a --max-tokens 1",
    "dev profile tiny.gguf",
    "bench tiny.gguf --title a --change b",
    "bench tiny.gguf --workload chat",
    "bench tiny.gguf --cold",
    "dev graph tiny.gguf --dispatches 1",
    "info tiny.gguf --memory",
    "dev kernel embed --tokens 0",
    "dev kernel embed --model tiny.gguf --cases 1",
    "embed tiny.gguf a",
    "eval tiny.gguf --text text.txt",
    "chat tiny.gguf",
];

#[test]
fn a_kernel_that_does_not_compile_stops_every_verb() {
    let folder = folder(PAIRS);
    let folder = folder.path();
    std::fs::write(folder.join("ids.json"), "[1, 2]").unwrap();
    std::fs::write(folder.join("text.txt"), "ab\n").unwrap();
    // What a chat is told is the same.
    let run = |verb: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
        command.args(words(verb)).args(["--kernels", "mine"]).current_dir(folder);
        command.env("XDG_RUNTIME_DIR", folder).env("WGOOSE_DATA_DIR", folder.join("data"));
        command.stdin(std::fs::File::open(folder.join("text.txt")).unwrap()).output().unwrap()
    };
    let own = include_str!("../../../../kernels-wgsl/ops/embed/elements.wgsl");
    let pairs = |from: &str, to: &str| {
        assert!(PAIRS.contains(from));
        ("pairs.wgsl", PAIRS.replacen(from, to, 1))
    };
    // One that replaces the default, and new ones that are never chosen.
    let (missing, elsewhere) = (("elements.wgsl", own.replace("+ tid;", "+ tid")), pairs("i % M;", "i % M"));
    assert_ne!(missing.1, own);
    let array = "var<workgroup> rows: array<f32, 400000>;\n\n@compute";
    let large = pairs("@compute", array).1.replacen("let row =", "rows[tid] = 1.0;\n    let row =", 1);
    let stops = |(name, text): (&str, String), verbs: &[&str]| {
        let path = folder.join("mine/ops/embed").join(name);
        std::fs::write(&path, text).unwrap();
        for verb in verbs {
            let output = run(verb);
            let (code, stderr) = (output.status.code(), stderr(&output));
            let last = stderr.lines().last().unwrap();
            let place = format!("ops/embed/{name}:");
            assert!(code == Some(1) && last.starts_with("wgoose: ") && last.contains(&place), "{verb}: {stderr}");
            assert!(!stderr.contains(&format!("{name}: new, used")), "{verb}: {stderr}");
        }
        std::fs::remove_file(path).unwrap();
    };
    std::fs::remove_file(folder.join("mine/ops/embed/pairs.wgsl")).unwrap();
    stops(missing, RUNNING);
    stops(elsewhere, RUNNING);
    let some = &["verify tiny.gguf --cache cache", "dev graph tiny.gguf --dispatches 1"];
    for wrong in [("pairs.wgsl", String::new()), pairs("lib/op", "lib/opp"), ("pairs.wgsl", large)] {
        stops(wrong, some);
    }
    for verb in RUNNING {
        let output = run(verb);
        assert!(output.status.code() == Some(1) && stderr(&output).contains("mine has no kernels"), "{verb}");
    }
}

#[test]
fn a_kernel_that_does_not_compile_fails_alone_in_a_sweep() {
    let folder = folder(&PAIRS.replacen("i % M;", "i % M", 1).replacen("#import", "// default: 5\n#import", 1));
    let folder = folder.path();
    let mine = folder.join("mine/ops/embed");
    std::fs::write(mine.join("broken.wgsl"), PAIRS.replacen("// idea:", "// ideas:", 1)).unwrap();
    let swept = wgoose(folder, words("tune tiny.gguf --kernels mine --out plan.ron --budget 2 --chunks 16"));
    let told = stderr(&swept);
    assert!(swept.status.success(), "{told}");
    assert!(told.contains("a file is left out: ops/embed/broken.wgsl:1: "), "{told}");
    assert!(told.contains("left out: ops/embed/pairs.wgsl:"), "{told}");
    let ledger = std::fs::read_to_string(folder.join("plan.jsonl")).unwrap();
    assert!(ledger.contains("ops/embed/pairs.wgsl:"), "{ledger}");
}

#[test]
fn a_kernel_of_an_op_outside_the_plan_is_reported_as_never_tried() {
    let folder = folder(PAIRS);
    let folder = folder.path();
    let mine = folder.join("mine/ops/lerp");
    std::fs::create_dir_all(&mine).unwrap();
    let own = include_str!("../../../../kernels-wgsl/ops/lerp/elements.wgsl");
    let own: Vec<&str> = own.lines().filter(|line| !line.starts_with("// default:")).collect();
    std::fs::write(mine.join("planes.wgsl"), own.join("\n")).unwrap();
    // Little is asked of the device: which ops there are is not measured.
    let swept = wgoose(folder, words("tune tiny.gguf --kernels mine --out plan.ron --budget 0 --chunks 16"));
    let told = stderr(&swept);
    assert!(swept.status.success(), "{told}");
    assert!(told.contains("note: never tried: ops/lerp/planes.wgsl: no pass of the plan has its op\n"), "{told}");
    let plan = printed(folder, words("info plan.ron"));
    assert!(plan.contains("not tried, as it has no such op: lerp/planes"), "{plan}");
    let ledger = std::fs::read_to_string(folder.join("plan.jsonl")).unwrap();
    assert!(ledger.lines().any(|line| line.contains("\"stage\":\"not tried\"") && line.contains("lerp")), "{ledger}");
}

#[test]
fn fusions_alone_can_be_tuned() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    std::fs::write(folder.join("write.ron"), "(name: \"write\", parts: [(tokens: 1)])").unwrap();
    let line = "tune tiny.gguf --out plan.ron --only fusions --budget 8 --workload write.ron -v";
    let swept = wgoose(folder, words(line));
    let told = stderr(&swept);
    assert!(swept.status.success(), "{told}");
    let stages: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once(" s left  -- ")?.1)).collect();
    assert_eq!(stages, ["reference", "tuned plan against the default"], "{told}");
    // On a machine that has no time for it this is said.
    assert!(told.contains("decode with"), "{told}");
    assert!(!told.contains("interleaved") && !told.contains("K-major") && !told.contains("chunk 16:"), "{told}");
    let plan = printed(folder, words("info plan.ron"));
    assert!(!plan.contains("\n  matmul "), "{plan}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_variant_that_no_plan_takes_is_checked_when_it_is_forced() {
    let wrong = PAIRS.replace("y[i] = table_value(at);", "y[i] = 1.5 * table_value(at);");
    let folder = folder(&wrong);
    let run = |line: &str| wgoose(folder.path(), words(line));
    let unseen = run("verify tiny.gguf --plan default --kernels mine");
    assert!(unseen.status.success() && stderr(&unseen).contains("pairs.wgsl: new, not used by this run"), "{unseen:?}");
    for (line, refused) in [
        ("verify tiny.gguf --plan default", "the plan fails the quality gate"),
        ("dev trace tiny.gguf --plan default --tokens ids.json --first-divergence", "embed/pairs"),
    ] {
        std::fs::write(folder.path().join("ids.json"), "[1, 2, 3]").unwrap();
        let output = run(&format!("{line} --kernels mine --variant embed/pairs"));
        let told = stderr(&output);
        assert!(!output.status.success() && told.contains(refused), "{told}");
        assert!(told.contains("variant embed/pairs: used"), "{told}");
    }
    write(folder.path(), PAIRS);
    let right = run("verify tiny.gguf --plan default --kernels mine --variant embed/pairs --variant lerp/elements");
    let told = stderr(&right);
    assert!(right.status.success(), "{told}");
    assert!(told.contains("variant lerp/elements: not used by this run: no pass has its op"), "{told}");
    for (wrong, why) in [
        ("embed", "expected OP/VARIANT"),
        ("embedding/pairs", "there is no op 'embedding': the ops are "),
        ("embed/paris", "embed has no variant 'paris': it has elements, pairs"),
    ] {
        let output = run(&format!("verify tiny.gguf --kernels mine --variant {wrong}"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(why), "{output:?}");
    }
}

#[test]
fn a_kernel_from_a_folder_harms_its_own_memory_only() {
    let folder = folder(PAIRS);
    let folder = folder.path();
    std::fs::write(folder.join("ids.json"), "[1, 2]").unwrap();
    std::fs::remove_file(folder.join("mine/ops/embed/pairs.wgsl")).unwrap();
    let own = include_str!("../../../../kernels-wgsl/ops/layer_norm/row.wgsl");
    let hostile = own
        .replacen("@compute", "var<workgroup> few: array<f32, 4>;\n\n@compute", 1)
        .replacen("    let start =", "    few[params.k * 100u + thread.tid] = 1.0;\n    if few[thread.tid % 4u] == 7.5 { y[0] = 1.0; }\n    let start =", 1);
    std::fs::create_dir_all(folder.join("mine/ops/layer_norm")).unwrap();
    std::fs::write(folder.join("mine/ops/layer_norm/row.wgsl"), hostile).unwrap();
    let line = "dev logits tiny.gguf --tokens ids.json --out mine.npy --no-cache --kernels mine";
    printed(folder, words(line));
    printed(folder, words("dev logits tiny.gguf --tokens ids.json --out own.npy --no-cache"));
    let numbers = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(numbers("mine.npy"), numbers("own.npy"), "nothing else is changed");
}

#[test]
fn a_watched_folder_is_tested_after_every_change() {
    let folder = folder(&PAIRS.replace("table_value(at + 1u)", "0.0"));
    let line = "dev kernel embed/pairs --kernels mine --tokens 0 --cases 1 --watch";
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(words(line)).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |what: &str| lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line.contains(what)));
    assert!(until("WRONG").is_some());
    assert!(until("saved: ").is_some());
    // Whether the first round still runs or waits already, this is a change after it began.
    write(folder.path(), PAIRS);
    let mended = until("right: ");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(mended.is_some());
}
