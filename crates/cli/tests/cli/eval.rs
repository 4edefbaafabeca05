//! `wgoose eval`: one table, the same as JSON, on both backends.

use crate::binary::{printed, synth};
use serde_json::Value;
use std::path::Path;

const TEXT: &str = "The goose flies over the house. The goose flies over the house again.";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    synth(folder.path(), "other.gguf", "--seed 1");
    std::fs::write(folder.path().join("text.txt"), TEXT).unwrap();
    folder
}

fn run(folder: &Path, line: &str) -> String {
    printed(folder, format!("eval tiny.gguf --text text.txt {line}").split_whitespace())
}

fn json(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&run(folder, &format!("--json {line}"))).unwrap()
}

#[test]
fn the_table_and_the_json_have_equal_figures() {
    let folder = folder();
    let json = json(folder.path(), "--backend cpu");
    assert_eq!(json["bytes"], TEXT.len());
    assert!(json.get("divergence").is_none());
    let table = run(folder.path(), "--backend cpu");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], [&json["tokens"].to_string(), "tokens,", &TEXT.len().to_string(), "bytes"]);
    let number = |line: usize| lines[line].iter().rev().nth(2).unwrap().parse::<f64>().unwrap();
    for (line, name, field) in [
        (1, "bits per byte", "bits_per_byte"),
        (2, "bits per token", "bits_per_token"),
        (3, "perplexity per token", "perplexity"),
    ] {
        assert!(table.lines().nth(line).unwrap().starts_with(name), "{table}");
        let wanted = json[field].as_f64().unwrap();
        assert!((number(line) / wanted - 1.0).abs() < 1e-4, "{field}: {} {wanted}", number(line));
    }
    let errors: Vec<f64> = (1..4).map(|line| lines[line].last().unwrap().parse().unwrap()).collect();
    let relative = json["relative_standard_error_of_perplexity"].as_f64().unwrap();
    assert!(
        errors.iter().all(|error| *error > 0.0) && (errors[2] / number(3) / relative - 1.0).abs() < 1e-4,
        "{table}"
    );
    assert!(table.lines().nth(4).unwrap().starts_with("tokens/s") && table.lines().count() == 5, "{table}");
}

#[test]
fn the_gpu_is_near_the_reference_and_another_model_is_not() {
    let folder = folder();
    let near = json(folder.path(), "--against reference --context 20");
    let divergence = &near["divergence"];
    assert!(divergence["mean_kl"].as_f64().unwrap() < 1e-8, "{near}");
    assert!(divergence["kl_99"].as_f64().unwrap() <= divergence["max_kl"].as_f64().unwrap(), "{near}");
    assert_eq!(divergence["agreement"], 1.0);
    let counts = divergence["by_position"].as_array().unwrap().iter().map(|s| s["tokens"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), near["tokens"].as_u64().unwrap());

    let far = json(folder.path(), "--against other.gguf --limit 30");
    assert!(far["divergence"]["mean_kl"].as_f64().unwrap() > 0.5, "{far}");
    assert_eq!((&far["tokens"], &far["reference"]["tokens"]), (&30.into(), &30.into()));
    let table = run(folder.path(), "--against other.gguf --limit 30");
    for part in
        ["model                   reference", "KL divergence from the reference: mean ", "position", " 16 to 63 "]
    {
        assert!(table.contains(part), "'{part}' is not in\n{table}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_evaluation_prints_its_figures_so_far() {
    let folder = folder();
    let whole = TEXT.repeat(20_000);
    std::fs::write(folder.path().join("text.txt"), &whole).unwrap();
    // How long a first pass takes depends on the machine.
    let interrupted = [1, 4, 16, 64, 256].into_iter().map(|seconds| interrupted(folder.path(), seconds));
    let (bytes, said) = interrupted.into_iter().find(|(bytes, _)| *bytes > 0).expect("minutes are enough for a pass");
    assert!(bytes < whole.len() as u64, "it was not interrupted");
    assert!(said.contains(&format!("interrupted: {bytes} of ")), "{said}");
}

/// Interrupts an evaluation after so many seconds: the bytes that it has measured by then, and what it says on stderr.
#[cfg(unix)]
fn interrupted(folder: &std::path::Path, seconds: u64) -> (u64, String) {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args("eval tiny.gguf --text text.txt --json".split(' ')).current_dir(folder);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It says the plan when the session is open.
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.starts_with("plan: "), "{said}");
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (json["bytes"].as_u64().unwrap_or(0), said)
}
