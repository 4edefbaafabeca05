//! Every example runs to its end on the model that it writes itself.

use std::path::Path;
use std::process::Command;

/// The words that each example must print: an example that does nothing is noticed.
const EXAMPLES: [(&str, &[&str]); 4] = [
    ("generate", &["The goose flies over", "tokens read, "]),
    ("embed_batch", &["4 texts, 128 numbers each", " 1.000", "computed"]),
    ("state_cache", &["a fork answers", "bytes of state", "tokens not read again"]),
    ("custom_kernel", &["activate/elements", "activate/vec4 WG=64", "activate/vec4 WG=128"]),
];

#[test]
fn every_example_runs() {
    // All tests are built with the examples, a single one without. All of the workspace: one package alone would compile
    // dependencies anew, with fewer features.
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--workspace", "--target-dir"])
        .arg(profile.parent().expect("profiles have a folder"));
    cargo.args(EXAMPLES.iter().flat_map(|(name, _)| ["--example", name]));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo runs").success(), "the examples do not build");
    for (name, says) in EXAMPLES {
        let output = Command::new(profile.join("examples").join(name)).output().expect("an example runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        for words in says {
            assert!(printed.contains(words), "{name} does not say '{words}':\n{printed}");
        }
    }
}

#[test]
fn every_example_is_listed_and_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for file in std::fs::read_dir(folder).expect("there are examples").flatten().filter(|f| f.path().is_file()) {
        let name = file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert!(EXAMPLES.iter().any(|(known, _)| *known == name), "{name} is not among those that are run");
        let lines = std::fs::read_to_string(file.path()).unwrap_or_default().lines().count();
        assert!(lines < 80, "{name} has {lines} lines");
    }
}
