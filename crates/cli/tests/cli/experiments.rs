//! `experiment`: a declared question, answered by one command, with every sample kept.

use crate::binary::{printed, said, wgoose};
use crate::compare::plant_wrong_kernel;
use std::fs::{create_dir_all, read_to_string, write};
use std::path::Path;
use wgoose_measure::experiment::{Findings, Found};
use wgoose_measure::ledger::{Record, read};

/// A question about a model of 0.4 million weights.
const QUESTION: &str = r#"(
    question: "Is a thing as fast as itself?",
    hypothesis: "Yes, and what is wrong is refused.",
    claims: [
        (arm: "same", tokens: 1, predicted: 1.0, holds: (0.001, 1000.0)),
        (arm: "wrong", tokens: 1, predicted: 1.0, holds: (0.001, 1000.0)),
    ],
    on: (model: Synthetic(preset: "7.2B", mix: "F16"), workload: [(tokens: 1), (tokens: 512)]),
    on_cpu: (model: Synthetic(layers: 2, width: 64, vocab: 300, mix: "F16"), workload: [(tokens: 1), (tokens: 9)], seconds: 1),
    baseline: (chunk: 32),
    arms: [
        (name: "same"),
        (name: "apart", differs: (without: [NormShift])),
        (name: "impossible", differs: (without: [NormMatmul])),
        (name: "no other", differs: (chunk: 32)),
        (name: "wrong", differs: (kernel_files: "wrong")),
        (name: "persistent", differs: (persistent: true)),
        (name: "other format", differs: (mix: "Q8_0")),
        (name: "own kernel", differs: (kernels: [(op: "matmul", variant: "naive", rows: 1)])),
        (name: "read back", differs: (drive: (chooser: Host, in_flight: 1, submissions: 2, sequences: InTurns))),
        (name: "from the file", differs: (drive: (weights: Eager))),
    ],
)"#;

/// A folder with an experiment.
fn folder(question: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("experiments/001-itself");
    create_dir_all(&own).unwrap();
    write(own.join("experiment.ron"), question).unwrap();
    plant_wrong_kernel(&own.join("wrong"));
    folder
}

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

/// Whether an arm is neither faster nor slower in anything.
fn are_called_equal(found: &Found) -> bool {
    found.timed.iter().all(|timed| ["SAME", "AMBIGUOUS"].contains(&&*timed.result.comparison.verdict.to_string()))
}

/// Runs the experiment again: the findings of its baseline.
fn ask_again(folder: &Path, ledger: &Path) -> Found {
    run(folder, "dev experiment run experiments/001-itself --cache-dir cache");
    let found = Findings::all(&read(ledger).unwrap().0).pop().unwrap().found;
    found.into_iter().find(|found| found.is_baseline).unwrap()
}

#[test]
fn an_experiment_runs_from_one_file_by_one_command() {
    let folder = folder(QUESTION);
    let own = folder.path().join("experiments/001-itself");
    let table = run(folder.path(), "dev experiment run experiments/001-itself --cache-dir cache");
    // Where noise once looked like a gain, held-out samples leave it open.
    let said = table.lines().find(|line| line.starts_with("same in decode: predicted 1.000, found ")).unwrap();
    assert!(said.ends_with(": holds") || said.ends_with(": open"), "{table}");
    assert!(table.contains("wrong in decode: predicted 1.000, found -: not measured\n"), "{table}");

    let results: Vec<_> = std::fs::read_dir(own.join("results")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let ledger = results.iter().find(|path| path.extension().unwrap() == "jsonl").unwrap();
    assert!(results.len() == 2 && ledger.with_extension("svg").is_file(), "{results:?}");
    let found = Findings::all(&read(ledger).unwrap().0);
    let [findings] = &found[..] else { panic!("{} runs", found.len()) };
    assert!(findings.session.version.contains("wgpu ") && findings.session.default == findings.found[0].arm.plan);
    let arm = |name: &str| findings.found.iter().find(|found| found.arm.name == name).unwrap();
    let same = arm("same");
    assert!(same.is_baseline && same.timed.len() == 2);
    // By chance equals are called different once in hundreds of comparisons: not twice in a row.
    assert!(are_called_equal(same) || are_called_equal(&ask_again(folder.path(), ledger)), "{same:?}");
    let wrong = arm("wrong");
    assert!(wrong.timed.is_empty() && wrong.refused.as_ref().unwrap().to_string().starts_with("wrong result: "));
    // A device that keeps all workgroups resident runs it; another one says so, and times no decoding.
    let persistent = arm("persistent");
    assert_eq!(persistent.timed.len() + usize::from(persistent.fell_back.is_some()) + persistent.failed.len(), 2);
    assert!(arm("other format").arm.model != same.arm.model && arm("other format").timed.len() == 2);
    assert!(arm("own kernel").arm.plan != same.arm.plan && arm("own kernel").timed.len() == 2);
    for driven in [arm("read back"), arm("from the file")] {
        assert!(
            driven.arm.plan == same.arm.plan && driven.arm.id != same.arm.id && driven.timed.len() == 2,
            "{driven:?}"
        );
        assert!(!driven.arm.drive.is_usual() && driven.gate.is_none(), "{driven:?}");
    }

    let readme = read_to_string(own.join("README.md")).unwrap();
    for part in [
        "# Is a thing as fast as itself?\n\nYes, and what is wrong is refused.\n",
        "| wrong | decode | 1.000 | 0.001, 1000 | not measured |",
        "- wrong is refused: wrong result: f32:",
        "| apart | prefill of 9 | ",
        "- impossible is left out: constraint: the plan that it differs from does not have the fusion norm-matmul",
        "- no other is left out: constraint: 'no other' is the baseline: the workload runs the same kernels",
        "wgoose dev experiment run experiments/001-itself\n",
    ] {
        assert!(readme.contains(part), "{part} is not in {readme}");
    }
    // What is recorded says it all.
    std::fs::remove_file(own.join("README.md")).unwrap();
    run(folder.path(), "dev experiment render experiments/001-itself");
    assert_eq!(read_to_string(own.join("README.md")).unwrap(), readme);
    assert!(run(folder.path(), "dev experiment list").contains(", wrong in decode not measured\n"));
    assert!(
        run(folder.path(), "dev experiment show experiments/001-itself --format csv").contains("wrong result: f32:")
    );
    // A run that was broken off leaves what was answered before.
    let text = read_to_string(ledger).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let begun = lines
        .iter()
        .filter(|line| ["session", "experiment"].iter().any(|r| line.contains(&format!("\"record\":\"{r}\""))));
    let again: String = begun.map(|line| format!("{line}\n")).collect();
    assert!(again.lines().count() >= 2);
    write(own.join("results/broken-off.jsonl"), &again).unwrap();
    let devices = || run(folder.path(), "dev experiment devices experiments/001-itself");
    assert!(!devices().contains("broken-off"));
    // Results that are kept compressed are before it in the same ledger.
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/000-itself/results/llvmpipe.jsonl.zst");
    let packed = own.join("results/broken-off.jsonl.zst");
    std::fs::copy(kept, &packed).unwrap();
    assert!(devices().contains("broken-off"));
    std::fs::remove_file(packed).unwrap();

    // Two devices, each with a column.
    std::fs::copy(ledger, own.join("results/zz-other.jsonl")).unwrap();
    let table = devices();
    let device = ledger.file_stem().unwrap().to_str().unwrap();
    assert!(table.starts_with(&format!("| arm | timed | {device} | zz-other |\n")), "{table}");
    let row = table.lines().find(|line| line.starts_with("| same | decode | ")).unwrap();
    let [_, _, _, here, there, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
    assert!(here == there && here.contains(" to "), "{row}");
    run(folder.path(), "dev experiment render experiments/001-itself");
    assert!(read_to_string(own.join("README.md")).unwrap().contains("\n## Devices side by side\n| arm | timed |"));
}

#[test]
fn an_impossible_declaration_is_refused_in_one_line() {
    let tuned = QUESTION.replace("baseline:", "tuning: tuned_per_arm(seconds: 1), baseline:");
    let cases = [
        (&*tuned, "'wrong' has kernel_files: kernels for that are not tuned per arm"),
        (&QUESTION.replace("\"naive\"", "\"goose\""), "arm 'own kernel': there is no kernel matmul/goose"),
        (&QUESTION.replace("rows: 1", "rows: 1, config: {\"WG\": 3}"), "arm 'own kernel': matmul/naive WG=3: "),
        (&QUESTION.replace("\"Q8_0\"", "\"Q9\""), "arm 'other format': there is no mix of formats 'Q9'"),
        (&QUESTION.replace("\"wrong\")", "\"nowhere\")"), "arm 'wrong': "),
        (&QUESTION.replace("hypothesis", "guess"), "experiment.ron: "),
        (&QUESTION.replace("arm: \"same\"", "arm: \"none\""), "a claim is about 'none'"),
    ];
    for (question, says) in cases {
        let folder = folder(question);
        let line = "dev experiment run experiments/001-itself --cache-dir cache";
        let output = wgoose(folder.path(), line.split(' '));
        let (status, said) = (output.status.code(), said(output));
        assert!(status == Some(1) && said.contains(says) && said.lines().count() == 1, "{says}: {status:?} {said}");
        assert!(!folder.path().join("experiments/001-itself/README.md").exists());
    }
    let folder = folder(QUESTION);
    let output = wgoose(folder.path(), ["dev", "experiment", "show", "experiments/001-itself"]);
    assert!(said(output).contains("nothing was measured yet"));
}

#[test]
fn kernels_are_tuned_per_arm_if_the_declaration_asks() {
    let question = r#"(
        question: "Does it pay, with kernels that suit it?",
        hypothesis: "It does.",
        on: (model: Synthetic(layers: 1, width: 64, vocab: 300, mix: "F16"), workload: [(tokens: 1)], seconds: 1),
        tuning: tuned_per_arm(seconds: 2),
        arms: [
            (name: "apart", differs: (without: [NormShift])),
            (name: "naive", differs: (kernels: [(op: "matmul", variant: "naive", config: {})])),
        ],
    )"#;
    let folder = folder(question);
    run(folder.path(), "dev experiment run experiments/001-itself --cache-dir cache");
    let results = std::fs::read_dir(folder.path().join("experiments/001-itself/results")).unwrap();
    let ledger = results.map(|entry| entry.unwrap().path()).find(|path| path.extension().unwrap() == "jsonl").unwrap();
    let (records, _) = read(&ledger).unwrap();
    let jobs = |name: &str| {
        let jobs = records.trials().map(|(_, trial)| &trial.identity.tried);
        jobs.filter(|job| job.name() == name).count()
    };
    assert!(jobs("kernel") > 10 && jobs("gate") == 6, "{} kernels, {} gates", jobs("kernel"), jobs("gate"));
    // What an arm names stays.
    let findings = Findings::all(&records).pop().unwrap();
    let naive = &findings.found.iter().find(|found| found.arm.name == "naive").unwrap().arm.plan;
    let plan = records.as_slice().iter().find_map(|entry| match &entry.record {
        Record::Plan(known) if known.plan.hash() == naive.0 => Some(&known.plan),
        _ => None,
    });
    let named: Vec<&str> = plan.unwrap().choices.iter().filter(|c| c.key.op == "matmul").map(|c| &*c.variant).collect();
    assert!(!named.is_empty() && named.iter().all(|variant| *variant == "naive"), "{named:?}");
}

/// Pages and pictures in the repository are those of its records; declarations without records can be read.
#[test]
fn pages_and_pictures_of_experiments_match_their_records() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let copies = tempfile::tempdir().unwrap();
    let mut rendered = 0;
    for own in std::fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().path()) {
        let copy = copies.path().join(own.file_name().unwrap());
        if !own.join("experiment.ron").is_file() {
            continue;
        }
        create_dir_all(copy.join("results")).unwrap();
        std::fs::copy(own.join("experiment.ron"), copy.join("experiment.ron")).unwrap();
        let Ok(results) = std::fs::read_dir(own.join("results")) else { continue };
        let results: Vec<_> = results.map(|entry| entry.unwrap().path()).collect();
        let of = |ending: &str| results.iter().filter(|path| path.extension().unwrap() == ending).collect::<Vec<_>>();
        for ledger in of("zst") {
            std::fs::copy(ledger, copy.join("results").join(ledger.file_name().unwrap())).unwrap();
        }
        printed(copies.path(), ["dev".as_ref(), "experiment".as_ref(), "render".as_ref(), copy.as_os_str()]);
        let is_same = |shown: &Path, name: &Path| {
            let again = read_to_string(copy.join(name)).unwrap();
            assert!(
                read_to_string(shown).unwrap() == again,
                "{}: wgoose dev experiment render writes it anew",
                shown.display()
            );
        };
        is_same(&own.join("README.md"), Path::new("README.md"));
        of("svg").iter().for_each(|svg| is_same(svg, &Path::new("results").join(svg.file_name().unwrap())));
        rendered += 1;
    }
    assert!(rendered > 10, "{rendered} experiments");
    let listed = printed(copies.path(), ["dev", "experiment", "list", "."]);
    assert!(
        listed.contains("000-itself: Is a plan as fast as itself?\n") && listed.contains("015-f16-halves: "),
        "{listed}"
    );
}
