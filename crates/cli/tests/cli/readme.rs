//! A newcomer's first hour: each command of README and of the pages below docs/, in one folder, and what it must print.
//! A command that is new on a page must be named here.
#![cfg(unix)]

use crate::binary::{printed, synth};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a command of the page is tried.
enum How {
    /// As it is printed.
    Run,
    /// As this, which takes seconds.
    Instead(&'static str),
    /// Not at all, for this reason.
    Left(&'static str),
}
use How::{Instead, Left, Run};

/// The pages.
const PAGES: [&str; 11] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../docs/getting-started.md"),
    include_str!("../../../../docs/models.md"),
    include_str!("../../../../docs/tuning.md"),
    include_str!("../../../../docs/serving.md"),
    include_str!("../../../../docs/python.md"),
    include_str!("../../../../docs/migrating.md"),
    include_str!("../../../../docs/quality.md"),
    include_str!("../../../../docs/benchmarks.md"),
    include_str!("../../../../docs/kernels.md"),
    include_str!("../../../../docs/glossary.md"),
];

/// The commands of the pages in the order in which they run, and what each must print.
const COMMANDS: &[(&str, How, &[&str])] = &[
    ("cargo xtask demo", Left("minutes; CI runs it"), &[]),
    ("cargo xtask test", Left("it runs this test"), &[]),
    ("cargo run --release -p wgoose-session --example generate", Left("minutes; session's tests have it"), &[]),
    (
        "wgoose generate assets/demo.gguf -p \"#[stable(feature = \"",
        Instead("wgoose generate assets/demo.gguf -p \"#[stable(feature = \" -n 4"),
        &["4 tokens generated"],
    ),
    ("cargo install --path crates/cli --locked", Left("minutes; this test has the binary"), &[]),
    ("wgoose devices", Run, &["0: ", "features: "]),
    ("wgoose info model.gguf", Run, &["layers 2", "F16", "plan"]),
    (
        "wgoose tune model.gguf",
        Instead("wgoose tune model.gguf --budget 1 --chunks 16"),
        &["now:  wgoose generate model.gguf"],
    ),
    ("wgoose verify model.gguf", Run, &["quality hash", "decisions that agree", "passed"]),
    (
        "wgoose generate model.gguf --prompt \"The goose flies over\" --max-tokens 64",
        Run,
        &["64 tokens generated", "tokens/s"],
    ),
    ("cat article.txt | wgoose generate model.gguf -n 200", Run, &["200 tokens generated"]),
    (
        "wgoose generate model.gguf --prompts prompts.txt --stop \"END\" --typical 0.9",
        Run,
        &["\"prompt\":0", "\"prompt\":1", "\"finish_reason\"", "up to 2 at once"],
    ),
    ("wgoose chat model.gguf --think", Instead("echo Honk? | wgoose chat model.gguf --think -n 8"), &["<think"]),
    ("wgoose serve model.gguf", Left("it never ends; serve.rs asks it"), &[]),
    ("cp target/release/wgoose deploy/", Left("a container is not for a test"), &[]),
    ("podman build --tag wgoose deploy", Left("it needs podman and packages of Debian"), &[]),
    (
        "podman run -p 127.0.0.1:8080:8080 --device /dev/dri -v ./models:/models:ro -v wgoose:/var/lib/wgoose wgoose",
        Left("it never ends"),
        &[],
    ),
    ("install -m 755 target/release/wgoose /usr/local/bin/", Left("it changes the system"), &[]),
    ("install -m 644 deploy/wgoose.service /etc/systemd/system/", Left("it changes the system"), &[]),
    ("install -m 600 deploy/wgoose.conf /etc/wgoose.conf", Left("it changes the system"), &[]),
    ("systemctl enable --now wgoose", Left("it changes the system"), &[]),
    (
        "wgoose bench model.gguf",
        Instead("wgoose bench model.gguf --prompt-tokens 8 --decode 1 --decode-tokens 8 --runs 1"),
        &["prompt", "decode", "tokens/s"],
    ),
    (
        "wgoose bench model.gguf --plans found,default",
        Instead("wgoose bench model.gguf --plans found,default --prompt-tokens 8 --decode 1 --runs 1"),
        &["tokens/s", "default"],
    ),
    (
        "wgoose compare model.gguf --plan default --plan found",
        Instead("wgoose compare model.gguf --plan default --without norm-shift --workload short.ron --budget 1"),
        &["held against default plan", "passed the gate"],
    ),
    ("wgoose bench model.gguf --against llama-bench", Left("it needs llama.cpp; bench_against.rs plays it"), &[]),
    (
        "wgoose bench model.gguf --title \"my GPU\" --change \"tuned plan\" --save benchmarks.md",
        Instead(
            "wgoose bench model.gguf --title \"my GPU\" --change \"tuned plan\" --save benchmarks.md --runs 1 \
             --prefill-tokens 32 --decode-tokens 8",
        ),
        &["quality hash", "appended to benchmarks.md"],
    ),
    (
        "wgoose bench compare before.jsonl benchmarks.jsonl --fail-on slow",
        Instead(
            "cp benchmarks.jsonl before.jsonl && wgoose bench compare before.jsonl benchmarks.jsonl --fail-on slow",
        ),
        &["8 tokens written", "AMBIGUOUS"],
    ),
    ("wgoose plans", Run, &["nvidia-h200-24x2048-f16", "2x128-f16"]),
    ("mkdir tuned", Run, &[]),
    (
        "wgoose tune model.gguf --out tuned/plan.ron",
        Instead("wgoose tune model.gguf --out tuned/plan.ron --budget 1 --chunks 16"),
        &["plan: tuned/plan.ron", "now:  wgoose generate model.gguf --plan tuned/plan.ron"],
    ),
    ("wgoose plans derive tuned/*.jsonl --precision f32", Run, &["schema: 3", "choices"]),
    ("wgoose plans report tuned/plan.jsonl", Run, &["tuned/plan.html: "]),
    (
        "wgoose tune model.gguf --seeds mine.json",
        Instead("wgoose tune model.gguf --seeds mine.json --budget 1 --chunks 16"),
        &["now:  wgoose generate model.gguf"],
    ),
    (
        "wgoose tune model.gguf --survey=1/8 --ledger eighth.jsonl",
        Instead("wgoose tune model.gguf --survey=30/200 --ledger eighth.jsonl"),
        &["kernels timed: eighth.jsonl"],
    ),
    ("wgoose info model.gguf --memory", Run, &["smallest --gpu-budget", "uploaded"]),
    ("wgoose bench --cold model.gguf", Left("a minute and a half: cold.rs"), &[]),
    ("wgoose bench model.gguf --workload all --out-record tuned/workloads.jsonl", Left("minutes: workloads.rs"), &[]),
    (
        "wgoose bench model.gguf --prompt-tokens 32,128,512,2048 --packed 32x64 --decode 1,8,32,128",
        Left("minutes: workloads.rs"),
        &[],
    ),
    ("wgoose plans show nvidia-h200-24x2048-f16", Run, &["NVIDIA H200", "decode"]),
    ("wgoose dev graph 0.1B --fuse all", Run, &["head.weight", "places fused"]),
    ("wgoose dev graph 0.1B --dot | dot -Tsvg > rwkv7.svg", Instead("wgoose dev graph 0.1B --dot"), &["digraph", "->"]),
    ("wgoose dev graph model.gguf --dispatches 1", Run, &["dispatches,", "head.weight"]),
    ("wgoose dev logits model.gguf --tokens ids.json --out logits.npy", Run, &["logits.npy: logits [3, 320]"]),
    ("wgoose dev logits model.gguf --tokens ids.json --out cpu.npy --backend cpu", Run, &["cpu.npy: logits [3, 320]"]),
    ("wgoose dev trace model.gguf --tokens ids.json --out ops", Run, &["ops: ", " outputs"]),
    ("wgoose dev trace model.gguf --tokens ids.json --first-divergence", Run, &["ops are within their tolerances"]),
    ("wgoose tokenize \"The goose flies\"", Run, &["[6699,38609,38515]"]),
    ("wgoose embed model.gguf --file texts.txt --out vectors.npy", Run, &["vectors.npy: 2 embeddings"]),
    ("wgoose dev roofline", Run, &["bandwidth", "dispatch", "barrier"]),
    ("wgoose dev profile model.gguf --svg step.svg", Run, &["matmul", "roofline", "whole step"]),
    (
        "wgoose dev synth model.gguf --preset 0.1B --mix Q4_K_M",
        Instead("wgoose dev synth published.gguf --preset 0.1B --mix Q4_K_M && rm published.gguf"),
        &["191.1 M weights", "Q4_K_M"],
    ),
    ("wgoose dev kernel", Run, &["matmul", "naive", "one workgroup per token"]),
    ("mkdir -p mine/ops/matmul", Run, &[]),
    (
        "cp kernels-wgsl/ops/matmul/naive.wgsl mine/ops/matmul/groups.wgsl",
        Instead("cp idea.wgsl mine/ops/matmul/groups.wgsl"),
        &[],
    ),
    (
        "wgoose dev kernel matmul/groups --kernels mine --tokens 0",
        Instead("! wgoose dev kernel matmul/groups --kernels mine --tokens 0"),
        &["WRONG: matmul/groups", "smallest case: ", "saved: wgoose dev kernel --case matmul-groups.case.json"],
    ),
    (
        "wgoose dev kernel --case matmul-groups.case.json --kernels mine",
        Instead(
            "cp mended.wgsl mine/ops/matmul/groups.wgsl && \
             ! wgoose dev kernel --case matmul-groups.case.json --kernels mine",
        ),
        &["refused: weights come in groups of 32, UNROLL at a time (ops/matmul/groups.wgsl:10)"],
    ),
    (
        "wgoose dev kernel matmul/groups --kernels mine --model model.gguf --tokens 1 --budget 4",
        Instead("wgoose dev kernel matmul/groups --kernels mine --model model.gguf --tokens 1 --budget 1 --cases 2"),
        &["right: ", "groups beside naive: "],
    ),
    (
        "wgoose compare model.gguf --kernels mine --variant matmul/groups --workload short.ron --budget 10",
        Instead("wgoose compare model.gguf --kernels mine --variant matmul/groups --workload short.ron --budget 1"),
        &["variant matmul/groups", "passed the gate"],
    ),
    (
        "wgoose tune model.gguf --kernels mine --out mine.ron",
        Instead("wgoose tune model.gguf --kernels mine --out mine.ron --budget 1 --chunks 16"),
        &["kernel file mine/ops/lerp/mine.wgsl: new", "plan: mine.ron"],
    ),
    ("wgoose eval model.gguf --text text.txt", Run, &["bits per byte", "perplexity per token", " +- ", "tokens/s"]),
    (
        "wgoose eval small.gguf --text text.txt --against model.gguf",
        Run,
        &["KL divergence from the reference", "same likeliest token"],
    ),
    ("wgoose eval model.gguf --text text.txt --against reference", Run, &["KL divergence", "100.00 %"]),
    ("wgoose convert model.pth smaller.gguf --to Q4_K_M --check", Run, &["smaller.gguf: ", "checked: ", "Q4_K_M"]),
    (
        "wgoose convert model.gguf mixed.gguf --to auto --budget-bytes 400MiB",
        Instead("wgoose convert model.gguf mixed.gguf --to auto --budget-bytes 400MiB --text text.txt"),
        &["mixed.gguf: ", "| matrices | ", "| auto | "],
    ),
    ("pip install .", Left("minutes; test_readme.py has the wheel"), &[]),
];

/// The commands in a page's blocks for a shell, without their comments.
fn commands_of(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split_once(" #").map_or(line, |(command, _)| command));
    lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// The blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.filter_map(|block| block.split("```").next()).map(str::to_owned).collect()
}

/// A text with the changes of a page: what its lines ` ` and `-` say becomes what those of ` ` and `+` say.
fn changed(text: &str, diff: &str) -> String {
    diff.split("@@\n").fold(text.to_owned(), |text, change| {
        let side = |sign: char| -> String {
            let lines = change.split_inclusive('\n').filter(|line| line.starts_with([' ', sign]));
            lines.map(|line| &line[1..]).collect()
        };
        assert!(text.contains(&side('-')), "{change}");
        text.replacen(&side('-'), &side('+'), 1)
    })
}

/// The kernel of the page about kernels, as its idea has it and as it is mended.
fn walked(naive: &str) -> [String; 2] {
    let page = include_str!("../../../../docs/kernels.md");
    let code = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(code(&blocks(page, "wgsl")[0]), code(naive), "the page shows naive.wgsl, with notes");
    let [idea, mend] = &blocks(page, "diff")[..] else { panic!("an idea and its mend") };
    let idea = changed(naive, idea);
    let mended = changed(&idea, mend);
    [idea, mended]
}

/// A folder with the files that the commands read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, "model.gguf", "");
    printed(path, "convert model.gguf small.gguf --to Q8_0".split(' '));
    // What a file is, its content says.
    printed(path, "dev synth model.st --layers 2 --width 256 --ffn 256 --vocab 320 --ranks 32,32,32,32".split(' '));
    fs::rename(path.join("model.st"), path.join("model.pth")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::os::unix::fs::symlink(root.join("assets"), path.join("assets")).unwrap();
    let kernel = "ops/lerp/elements.wgsl";
    let text = fs::read_to_string(root.join("kernels-wgsl").join(kernel)).unwrap();
    let naive = fs::read_to_string(root.join("kernels-wgsl/ops/matmul/naive.wgsl")).unwrap();
    let [idea, mended] = walked(&naive);
    let mine: String = text.split_inclusive('\n').filter(|line| !line.starts_with("// default:")).collect();
    fs::create_dir_all(path.join("mine/ops/lerp")).unwrap();
    for (name, text) in [
        ("mine/ops/lerp/mine.wgsl", mine.as_str()),
        ("idea.wgsl", idea.as_str()),
        ("mended.wgsl", mended.as_str()),
        ("article.txt", "A goose is a bird that swims, walks and flies.\n"),
        ("text.txt", "A goose is a bird that swims, walks and flies.\n"),
        ("prompts.txt", "a goose\na swan\n"),
        ("texts.txt", "a goose\na swan\n"),
        ("ids.json", "[1, 2, 3]"),
        ("mine.json", "[]"),
        ("short.ron", "(name: \"short\", parts: [(tokens: 1)])"),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_newcomer_s_first_hour() {
    let named: BTreeSet<String> = COMMANDS.iter().map(|(command, ..)| (*command).to_owned()).collect();
    let printed: BTreeSet<String> = PAGES.into_iter().flat_map(commands_of).collect();
    assert_eq!(printed, named, "pages and tests/cli/readme.rs name other commands");
    let folder = folder();
    let binary = Path::new(env!("CARGO_BIN_EXE_wgoose")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut wrong = Vec::new();
    for (command, how, says) in COMMANDS {
        let line = match how {
            Run => command,
            Instead(line) => line,
            Left(why) => {
                assert!(!why.is_empty() && says.is_empty());
                continue;
            }
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder.path()).env("PATH", format!("{}:{path}", binary.display()));
        shell.env("XDG_RUNTIME_DIR", folder.path()).env_remove("RUST_LOG");
        for (variable, place) in [("WGOOSE_DATA_DIR", "data"), ("WGOOSE_CACHE_DIR", "cache")] {
            shell.env(variable, folder.path().join(place));
        }
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&all);
        let lacks: Vec<&&str> = says.iter().filter(|fragment| !said.contains(**fragment)).collect();
        if !output.status.success() || !lacks.is_empty() {
            wrong.push(format!("{line}: {}, without {lacks:?}:\n{said}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    for made in ["benchmarks.md", "tuned/plan.html", "step.svg", "ops/pass-0", "vectors.npy", "smaller.gguf"] {
        assert!(folder.path().join(made).exists(), "{made}");
    }
}
