//! Whatever is wrong is said in one line; nothing panics.

use crate::binary::{printed, said, synth, wgoose};
use safetensors::tensor::{Dtype, TensorView};
use std::fs::{create_dir, write};
use std::path::Path;

/// Files to stumble over, beside `good.gguf` and `tokens.json`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| write(folder.path().join(name), content).unwrap();
    synth(folder.path(), "good.gguf", "");
    printed(folder.path(), "dev synth few-bytes.gguf --layers 1 --width 64 --vocab 100".split(' '));
    printed(folder.path(), "dev synth pile.st --layers 1 --width 64 --vocab 50277".split(' '));
    printed(folder.path(), "dev synth speech.st --layers 1 --width 64 --vocab 77900".split(' '));
    let good = std::fs::read(folder.path().join("good.gguf")).unwrap();
    file("utf16.txt", b"\xff\xfeg\0o\0o\0s\0e");
    file("cut.gguf", &good[..good.len() / 2]);
    file("header.gguf", &good[..20]);
    file("empty.gguf", b"");
    file("text.gguf", b"a goose\n");
    file("lfs.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
    file("page.gguf", b"<!doctype html><html></html>");
    file("packed.gguf", b"\x1f\x8b\x08\0\0\0\0\0");
    file("plan.gguf", include_bytes!("../../../../plans/nvidia-h200/24x2048-f16.ron"));
    let tensor = [0; 4];
    let view = |name: &str| (name.to_owned(), TensorView::new(Dtype::F32, vec![1], &tensor).unwrap());
    let names = ["model.layers.0.attn.x_r", "model.embeddings.weight", "lm_head.weight"];
    file("hf.safetensors", &safetensors::serialize(names.map(view), None).unwrap());
    file("tokens.json", b"[1, 2, 3]");
    file("object.json", b"{\"tokens\": [1]}");
    file("words.json", b"[\"a\", \"goose\"]");
    file("negative.json", b"[-1]");
    file("none.json", b"[]");
    file("words.jsonl", b"\"a\"\n[1]\n");
    file("blank.txt", b"a\n\nb\n");
    file("cut.json", b"[1, 2");
    file("binary.json", b"\xff\xfe");
    file("large.json", b"[1, 320]");
    file("garbage.ron", b"(schema: goose");
    file("binary.ron", b"\xff\xfe");
    file("empty.ron", b"");
    create_dir(folder.path().join("folder")).unwrap();
    create_dir(folder.path().join("folder.gguf")).unwrap();
    folder
}

/// Arguments that name a file wrongly, or with the wrong content: exit code 1, and what the line on stderr must say.
const FAILURES: &[(&str, &str)] = &[
    // Models.
    ("info missing.gguf", "missing.gguf"),
    ("info cut.gguf --json", "truncated"),
    ("info header.gguf", "truncated"),
    ("info empty.gguf", "'empty.gguf': the file is empty"),
    (
        "info text.gguf",
        "'text.gguf': a text, not a model (GGUF, safetensors or a .pth written by torch.save), which begins 'a goose'",
    ),
    ("info lfs.gguf", "'lfs.gguf': a git-lfs pointer, not the model itself: run `git lfs pull`"),
    ("generate page.gguf --prompt a", "'page.gguf': a web page (HTML), not a model: the download failed"),
    ("chat packed.gguf --prompt a", "'packed.gguf': compressed with gzip: unpack it first"),
    ("generate plan.gguf --prompt a", "'plan.gguf': a plan, not a model: name the model, and the plan with --plan"),
    (
        "info hf.safetensors",
        "'hf.safetensors': tensor 'model.layers.0.ffn.key.weight' is missing: the file holds no complete RWKV-7 model (3 of its tensors have flash-linear-attention's names",
    ),
    ("info folder", "'folder': no model in this folder: expected a file that ends in .gguf"),
    ("dev graph missing.gguf", "missing.gguf"),
    ("generate cut.gguf --prompt a", "truncated"),
    ("dev logits folder.gguf --tokens tokens.json --out logits.npy", "no model in this folder"),
    ("verify empty.gguf", "the file is empty"),
    ("tune missing.gguf --out plan.ron", "missing.gguf"),
    ("bench missing.gguf --title a --change b --save report.md", "missing.gguf"),
    ("bench --cold missing.gguf", "missing.gguf"),
    ("bench --cold cut.gguf", "truncated"),
    ("bench --cold good.gguf --device nobodys", "no adapter matches 'nobodys'"),
    ("bench --cold good.gguf --plan missing.ron", "missing.ron"),
    ("bench --workload document missing.gguf", "missing.gguf"),
    ("bench --workload all cut.gguf", "truncated"),
    ("bench --packed 2x3 good.gguf --plan missing.ron", "missing.ron"),
    // Experiments.
    ("dev experiment run nowhere", "experiment nowhere"),
    ("dev experiment run folder", "folder/experiment.ron"),
    ("dev experiment run garbage.ron", "experiment garbage.ron: 1:2"),
    ("dev experiment render binary.ron", "experiment binary.ron"),
    ("dev experiment show empty.ron", "experiment empty.ron"),
    ("dev experiment list folder", "no folder in it has an experiment.ron"),
    ("compare missing.gguf --chunk 4", "missing.gguf"),
    ("compare good.gguf --chunk 4 --against cut.gguf", "truncated"),
    ("compare good.gguf --chunk 4 --ledger good.gguf", "good.gguf is not a ledger"),
    ("compare good.gguf --plan default --plan garbage.ron", "garbage.ron: line 1"),
    // Tokens.
    ("dev logits good.gguf --out logits.npy --tokens missing.json", "missing.json"),
    ("dev logits good.gguf --out logits.npy --tokens folder", "folder"),
    ("dev logits good.gguf --out logits.npy --tokens object.json", "expected a JSON list of token ids"),
    ("dev logits good.gguf --out logits.npy --tokens words.json", "expected a JSON list of token ids"),
    ("dev logits good.gguf --out logits.npy --tokens negative.json", "expected a JSON list of token ids"),
    ("dev logits good.gguf --out logits.npy --tokens cut.json", "expected a JSON list of token ids"),
    ("dev logits good.gguf --out logits.npy --tokens binary.json", "binary.json"),
    ("dev logits good.gguf --out logits.npy --tokens none.json", "empty"),
    ("dev logits good.gguf --out logits.npy --tokens large.json", "token 320"),
    ("dev logits good.gguf --out logits.npy --tokens large.json --backend cpu", "token 320"),
    // Texts.
    ("embed good.gguf --file missing.txt", "missing.txt"),
    ("embed good.gguf --file folder", "folder"),
    ("embed good.gguf --file binary.json", "binary.json"),
    ("embed good.gguf --file empty.ron", "no text"),
    ("embed good.gguf --file words.jsonl", "line 2: expected a JSON string"),
    ("embed good.gguf --file blank.txt", "line 2: the text is empty"),
    ("embed good.gguf a --layer 2", "no layer 2"),
    ("embed good.gguf a --store text.gguf", "no embedding store"),
    ("embed few-bytes.gguf a", "token ids"),
    ("embed missing.gguf a", "missing.gguf"),
    ("eval good.gguf --text missing.txt", "missing.txt"),
    ("eval good.gguf --text folder", "folder: not a regular file"),
    ("eval good.gguf --text empty.ron", "empty.ron: the text is empty"),
    ("eval missing.gguf --text tokens.json", "missing.gguf"),
    ("eval good.gguf --text tokens.json --against missing.gguf", "missing.gguf"),
    ("eval good.gguf --text tokens.json --against few-bytes.gguf", "one has logits of 320 tokens, the other of 100"),
    ("eval good.gguf --text tokens.json --against good.gguf --against-plan garbage.ron", "garbage.ron: line 1"),
    ("eval few-bytes.gguf --text tokens.json", "token ids"),
    // Conversions.
    ("convert missing.pth new.gguf", "missing.pth"),
    ("convert pile.st new.gguf --vocab missing.txt", "vocabulary missing.txt: "),
    ("convert good.gguf new.gguf --to Q8_0 --most-rounding 0.001", "of its size (rms), and 0.1 % are allowed"),
    ("convert good.gguf new.gguf --measure missing.txt", "missing.txt"),
    ("convert cut.gguf new.st", "truncated"),
    ("convert text.gguf new.st", "not a model"),
    ("convert good.gguf good.gguf", "exists already"),
    ("convert good.gguf new.pth", ".gguf, .st or .safetensors"),
    ("convert good.gguf new.st --to Q8_0", "safetensors holds F32, F16 and BF16"),
    ("convert good.gguf new.st --set general.license=MIT", "write a GGUF file"),
    ("convert good.gguf new.gguf --set rwkv7.block_count=3", "'rwkv7.block_count' is as the tensors are"),
    ("convert good.gguf new.gguf --to Q4_K_M", "multiple of 256"),
    ("convert missing.gguf new.gguf --to auto --target-kl 0.01", "missing.gguf"),
    ("convert good.gguf good.gguf --to auto --target-kl 0.01", "exists already"),
    ("convert good.gguf new.st --to auto --target-kl 0.01", "write a GGUF file for formats chosen tensor by tensor"),
    ("convert good.gguf new.bin --to auto --target-kl 0.01", ".gguf, .st or .safetensors"),
    ("convert good.gguf new.gguf --to auto --target-kl 0.01 --text missing.txt", "missing.txt"),
    ("convert good.gguf new.gguf --to auto --target-kl 0.01 --text empty.ron", "empty.ron: the text is empty"),
    ("convert good.gguf new.gguf --to auto --target-kl 0.01 --device nobodys", "no adapter matches 'nobodys'"),
    // Places to write to.
    ("dev synth nowhere/new.gguf --layers 1 --width 64 --vocab 300", "nowhere/new.gguf"),
    ("dev synth folder.gguf --layers 1 --width 64 --vocab 300", "folder.gguf"),
    ("dev synth new.pth --layers 1 --width 64", ".gguf, .st or .safetensors"),
    // Plans, devices.
    ("generate good.gguf --prompt a --plan garbage.ron", "garbage.ron: line 1"),
    ("generate good.gguf --prompt a --plan empty.ron", "empty.ron: line 1"),
    ("generate good.gguf --prompt a --plan missing.ron", "missing.ron"),
    ("verify good.gguf --plan binary.ron", "binary.ron"),
    ("info garbage.ron", "garbage.ron: line 1"),
    ("generate good.gguf --prompt a --device nobodys", "no adapter matches 'nobodys'"),
    ("verify good.gguf --device 99", "no adapter matches '99'"),
    ("dev graph good.gguf --dispatches 4000000000", "smaller prefill chunk"),
    // Sizes, options.
    ("dev synth new.gguf --layers 0 --width 64", "layers is 0"),
    ("dev synth new.gguf --layers 1 --width 100", "width 100"),
    ("dev synth new.gguf --layers 4294967295 --width 64", "layers 4294967295"),
    ("dev synth new.gguf --layers 1 --width 64 --ranks 8,0,8,8", "rank is 0"),
    ("dev synth new.gguf --layers 1 --width 64 --vocab 300 --mix Q4_K_M", "multiple of 256"),
    ("dev synth new.gguf --layers 1 --width 64 --vocab 300 --mix Q8_0 --hot", "hot"),
    ("dev synth new.st --layers 1 --width 64 --vocab 300 --mix Q8_0", "GGUF"),
    ("generate few-bytes.gguf --prompt a", "token ids"),
    ("generate pile.st --prompt a", "no text: 50277 tokens are those of models of the Pile"),
    ("generate speech.st --prompt a", "none of 77900 tokens is known: give --vocab FILE"),
    ("generate pile.st --prompt a --vocab missing.txt", "vocabulary missing.txt: "),
    ("generate pile.st --prompt a --vocab text.gguf", "text.gguf: vocabulary line 1: "),
    ("tokenize --vocab tokens.json a", "tokens.json: vocabulary line 1: "),
    ("tokenize --file utf16.txt", "utf16.txt: it begins with the mark of UTF-16 and is none"),
    ("generate good.gguf --prompt=", "prompt is empty"),
    ("generate good.gguf --prompt a --prompt=", "prompt is empty"),
    ("generate good.gguf --prompts missing.txt", "missing.txt"),
    ("chat missing.gguf --prompt a", "missing.gguf"),
    // Kernels.
    ("generate good.gguf --prompt a --kernels nowhere", "nowhere: "),
    ("generate good.gguf --prompt a --kernels tokens.json", "tokens.json: "),
    ("generate good.gguf --prompt a --kernels .", ". has no kernels: it must have WGSL files in ops/OP/"),
    ("tune good.gguf --out plan.ron --kernels nowhere", "nowhere: "),
    ("dev kernel --kernels folder", "folder has no kernels"),
    ("dev kernel mul/honk", "mul has no variant 'honk': it has elements"),
    ("dev kernel mul --model missing.gguf --cases 1", "missing.gguf"),
    ("dev kernel --case missing.json", "missing.json: "),
    ("dev kernel --case tokens.json", "tokens.json: no case that was saved"),
    ("chat few-bytes.gguf --prompt a", "token ids"),
];

/// Arguments that no verb takes: exit code 2, and clap's explanation with this in it.
const USAGE: &[(&str, &str)] = &[
    ("honk", "honk"),
    ("generate good.gguf --prompt a --backend cpu --tune", "leave out --tune"),
    ("eval good.gguf --text tokens.json --against reference --against-plan plan.ron", "has no plan"),
    ("embed good.gguf a --pooling every --out new.npy", "JSON lines"),
    ("embed good.gguf a --out both.jsonl --store both.jsonl", "a file each"),
    ("tune good.gguf --out plan.ron --ledger plan.ron", "a file each"),
    ("bench --workload cold good.gguf --backend cpu", "--backend cpu"),
    ("bench --cold good.gguf --prompt-tokens 32,128", "name one length"),
    ("bench --cold good.gguf --backend cpu", "--backend cpu"),
    ("info", "<FILE>"),
    ("dev synth new.gguf --width 64", "--layers"),
    ("dev synth new.gguf --preset 9B", "0.1B, 0.4B"),
    ("dev synth new.gguf --layers 1 --width 64 --ranks 1,2", "decay,iclr,value,gate"),
    ("dev synth new.gguf --layers 1 --width 64 --mix Q9", "unknown mix 'Q9'"),
    ("info good.gguf --state-format f8", "there is no state format 'f8'"),
    ("convert good.gguf", "<OUT>"),
    ("convert good.gguf new.gguf --to Q9", "unknown mix 'Q9'"),
    ("convert good.gguf new.gguf --set license=MIT", "such as general.license=MIT"),
    ("convert good.gguf new.gguf --to Q9 --target-kl 0.01", "Q6_K, auto"),
    ("convert good.gguf new.gguf --to auto", "--to auto needs a goal"),
    ("convert good.gguf new.gguf --to auto --text words.jsonl", "--to auto needs a goal"),
    ("convert good.gguf new.gguf --to auto --target-kl 0.01 --budget-bytes 1MB", "cannot be used with"),
    ("convert good.gguf new.gguf --to auto --target-kl 0", "expected a number greater than 0"),
    ("convert good.gguf new.gguf --to auto --target-kl NaN", "expected a number greater than 0"),
    ("convert good.gguf new.gguf --to auto --target-kl -1", "expected a number greater than 0"),
    (
        "convert good.gguf new.gguf --to auto --budget-bytes 10",
        "10 bytes are too few: with every tensor in its smallest",
    ),
    ("convert good.gguf new.gguf --to auto --budget-bytes many", "expected a size such as 600MiB or 2GB"),
    ("convert good.gguf new.gguf --to auto --target-kl 0.01 --limit 0", "--limit"),
    ("convert good.gguf new.gguf --to Q8_0 --target-kl 0.01", "they go with --to auto"),
    ("convert good.gguf new.gguf --text words.jsonl", "they go with --to auto"),
    ("convert good.gguf nowhere/new.gguf", "there is no folder nowhere"),
    ("convert good.gguf folder.gguf", "it is a folder"),
    ("eval good.gguf", "--text"),
    ("eval good.gguf --text tokens.json --against-plan plan.ron", "--against"),
    ("eval good.gguf --text tokens.json --context 0", "--context"),
    ("eval good.gguf --text tokens.json --limit 0", "--limit"),
    ("dev logits good.gguf --tokens tokens.json --out logits.npy --chunk 0", "--chunk"),
    ("dev kernel honk", "there is no op 'honk'"),
    ("dev kernel mul --watch", "--kernels"),
    ("dev kernel mul --case case.json", "cannot be used with"),
    ("dev logits good.gguf --tokens tokens.json --out nowhere/logits.npy", "nowhere/logits.npy"),
    ("dev logits good.gguf --tokens tokens.json --out folder", "it is a folder"),
    ("dev logits good.gguf --tokens tokens.json --out a.npy --state-out nowhere/state.st", "nowhere/state.st"),
    ("tune good.gguf --out plan.jsonl", "choose another ending"),
    ("tune good.gguf --out folder", "it is a folder"),
    ("tune good.gguf --out nowhere/plan.ron", "there is no folder nowhere"),
    ("bench good.gguf --title a --change b --save nowhere/report.md", "there is no folder nowhere"),
    ("tune good.gguf --effort slow", "quick, normal, exhaustive"),
    ("tune good.gguf --budget soon", "--budget"),
    (
        "tune good.gguf --only layouts,fusion",
        "fusion is no part of tuning: name layouts, fusions, state, chunk or kernels",
    ),
    ("generate good.gguf --prompt a --tune --plan default", "cannot be used with"),
    ("plans honk", "honk"),
    ("plans diff one", "<B>"),
    ("bench good.gguf --title a --change b --save report.jsonl", "choose another ending"),
    ("tune good.gguf --out plan.ron --chunks 0", "--chunks"),
    ("generate good.gguf --prompt a --top-k 0", "--top-k"),
    ("generate good.gguf --prompt a --logit-bias 3", "expected TOKEN=BIAS"),
    ("generate good.gguf --prompt a --prompts tokens.json", "--prompts"),
    ("generate good.gguf", "there is no prompt: give --prompt TEXT"),
    ("generate good.gguf --prompt a --file tokens.json", "cannot be used with"),
    ("generate good.gguf --prompt a --prompt b --save-state s.st", "for one prompt"),
    ("generate good.gguf --prompt a --temperature=-1", "from 0 (greedy) upwards"),
    ("generate good.gguf --prompt a --temperature -1", "from 0 (greedy) upwards"),
    ("generate good.gguf --prompt a -t warm", "from 0 (greedy) upwards"),
    ("generate good.gguf --prompt a --max-tokens -1", "--max-tokens <N>: -1 is below zero"),
    ("generate good.gguf --prompt a --seed -1", "--seed <SEED>: -1 is below zero"),
    ("tune good.gguf --budget -5", "--budget <SECONDS>: -5 is below zero"),
    ("generate good.gguf --prompt a --chunk -5", "-5 is not in 1..=65535"),
    ("generate good.gguf --prompt a --top-p 2", "a number from 0 to 1"),
    ("generate good.gguf --prompt a --typical 2", "a number from 0 to 1"),
    ("generate good.gguf --prompt a --penalty-decay 2", "a number from 0 to 1"),
    ("generate good.gguf --prompt a --presence-penalty inf", "a number within 1e30"),
    ("generate good.gguf --prompt a --logit-bias 320=1", "token 320, the model has tokens below 320"),
    ("generate good.gguf --prompt a --logit-bias 3=nan", "bias NaN of token 3"),
    ("generate good.gguf --prompt a --stop-token 99999999", "--stop-token 99999999: the model has tokens below 320"),
    ("generate good.gguf --prompt a --gpu-budget abc", "expected a size such as 600MiB or 2GB"),
    ("generate good.gguf --prompt a --gpu-budget 5", "raise --gpu-budget"),
    ("dev graph 0.1B --fuse everything", "unknown fusion 'everything'"),
    ("generate good.gguf --prompt a --backend tpu", "gpu, cpu"),
    ("dev graph good.gguf --dispatches 0", "--dispatches"),
    ("generate good.gguf --prompt a --cache-dir folder --no-cache", "--cache-dir"),
    ("tune good.gguf --out plan.ron --cache-dir folder --no-cache", "--cache-dir"),
    ("bench", "<MODEL>"),
    ("generate good.gguf --prompt a --plan few-bytes.gguf", "it is a model, not a plan"),
    ("eval good.gguf --text tokens.json --against good.gguf --against-plan good.gguf", "it is a model, not a plan"),
    ("bench good.gguf --title a", "--change"),
    ("bench good.gguf --save report.md", "--title"),
    ("bench good.gguf --plans default --plan default", "cannot be used with"),
    ("bench good.gguf --format xml", "table, md, csv, json"),
    (
        "bench good.gguf --workload chats",
        "unknown workload 'chats': expected document, fields, chat, batch, cold or all",
    ),
    ("bench good.gguf --workload chat --title a --change b", "--title"),
    ("bench good.gguf --workload chat --cold", "--cold"),
    ("bench good.gguf --workload chat --drop-page-cache", "--drop-page-cache"),
    ("bench good.gguf --workload chat --out-record nowhere/a.jsonl", "there is no folder nowhere"),
    ("bench good.gguf --prompt-tokens 32,none", "--prompt-tokens"),
    ("bench good.gguf --packed 32", "such as 32x128"),
    ("bench good.gguf --packed 0x128", "such as 32x128"),
    ("bench good.gguf --decode 0", "--decode"),
    ("bench good.gguf --decode 2 --sequences 2", "--sequences"),
    ("bench good.gguf --drop-page-cache", "--cold"),
    ("bench good.gguf --title a --change b --drop-page-cache", "--drop-page-cache"),
    ("bench --cold good.gguf --title a", "--title"),
    ("bench --cold good.gguf --decode-tokens 3", "--decode-tokens"),
    ("bench --cold good.gguf --prompt-tokens 0", "--prompt-tokens"),
    ("bench --cold good.gguf --timeline nowhere/timeline.json", "there is no folder nowhere"),
    ("embed good.gguf", "<TEXTS"),
    ("embed good.gguf a --file tokens.json", "cannot be used with"),
    ("embed good.gguf a --out folder", "it is a folder"),
    ("embed good.gguf a --out v.csv", "ends in .npy, .jsonl or .json"),
    ("embed good.gguf a --pooling sum", "last, mean, every, state"),
    ("generate good.gguf --prompt a --timeline folder", "it is a folder"),
];

/// Exit code and stderr.
fn fails(folder: &Path, line: &str) -> (i32, String) {
    let output = wgoose(folder, line.split_whitespace());
    let code = output.status.code().unwrap();
    let stderr = said(output);
    assert!(!stderr.contains("panicked"), "{line}: {stderr}");
    (code, stderr)
}

#[test]
fn failures_are_one_line() {
    let folder = folder();
    for (line, says) in FAILURES {
        let (code, stderr) = fails(folder.path(), line);
        assert!(code == 1 && stderr.starts_with("wgoose: ") && stderr.lines().count() == 1, "{line}: {code} {stderr}");
        assert!(stderr.contains(says), "{line}: '{says}' is not in {stderr}");
    }
    for left in ["new.gguf", "new.st", "new.npy", "plan.ron", "report.md"] {
        assert!(!folder.path().join(left).exists(), "{left} was written all the same");
    }
}

/// A fault in the content of a model names its file.
#[test]
fn a_refused_model_is_named() {
    let folder = folder();
    for name in ["cut.gguf", "header.gguf", "empty.gguf", "text.gguf"] {
        for line in [format!("info {name}"), format!("generate {name} --prompt a"), format!("convert {name} new.st")] {
            let (code, stderr) = fails(folder.path(), &line);
            assert!(code == 1 && stderr.starts_with(&format!("wgoose: '{name}': ")), "{line}: {stderr}");
        }
    }
}

/// Names in files are escaped and cut.
#[test]
fn text_of_files_does_not_reach_the_terminal_raw() {
    let folder = folder();
    let good = std::fs::read(folder.path().join("good.gguf")).unwrap();
    let key = b"general.architecture";
    let at = good.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    let named = |name: &[u8]| [&good[..at], &(name.len() as u64).to_le_bytes(), name, &good[at + 8 + 5..]].concat();
    write(folder.path().join("escape.gguf"), named("\x1b[7mX\u{9b}".as_bytes())).unwrap();
    write(folder.path().join("long.gguf"), named(&vec![b'x'; 10 << 20])).unwrap();
    let (_, stderr) = fails(folder.path(), "info escape.gguf");
    assert!(stderr.contains("architecture '\\u{1b}[7mX\\u{9b}'") && !stderr.contains('\x1b'), "{stderr:?}");
    let (_, stderr) = fails(folder.path(), "info long.gguf");
    assert!(stderr.len() < 3000 && stderr.contains("characters)...") && stderr.contains("'rwkv7'"), "{stderr}");

    // Strings of a plan would be printed where all is well.
    let plan = include_str!("../../../../plans/nvidia-h200/24x2048-f16.ron");
    let adapter = plan.split_once("adapter: \"").unwrap().1.split_once('"').unwrap().0;
    write(folder.path().join("escape.ron"), plan.replace(adapter, "\\u{1b}[7m\\u{202e}X")).unwrap();
    let (code, stderr) = fails(folder.path(), "info escape.ron");
    assert!(code == 1 && stderr.contains("escape.ron: a name of 8 bytes") && !stderr.contains('\x1b'), "{stderr:?}");

    // A ledger's line is told by what it says of itself.
    let line = "{\"schema\":1,\"id\":\"\x1b[7mX\",\"at\":1}\n";
    write(folder.path().join("escape.jsonl"), line).unwrap();
    let (_, stderr) = fails(folder.path(), "plans derive escape.jsonl");
    assert!(stderr.contains("does not match its id \\u{1b}[7mX:") && !stderr.contains('\x1b'), "{stderr:?}");
}

#[cfg(unix)]
#[test]
fn fifos_and_devices_are_refused_without_waiting() {
    let folder = folder();
    for name in ["fifo", "fifo.gguf", "fifo.txt"] {
        let made = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
        assert!(made.success());
    }
    for line in [
        "info fifo",
        "info /dev/zero",
        "dev graph fifo.gguf",
        "dev logits fifo.gguf --tokens tokens.json --out l.npy",
        "dev logits good.gguf --tokens fifo --out l.npy",
        "dev logits good.gguf --tokens /dev/zero --out l.npy",
        "embed good.gguf --file fifo.txt",
        "embed good.gguf a --store fifo",
        "eval good.gguf --text fifo.txt",
        "generate good.gguf --prompts fifo.txt",
        "dev kernel --case fifo",
        "convert fifo new.gguf",
    ] {
        let (code, stderr) = fails(folder.path(), line);
        let named = ["fifo", "/dev/zero"].iter().any(|name| stderr.contains(name));
        assert!((1..=2).contains(&code) && named && stderr.contains("file"), "{line}: {code} {stderr}");
    }
    let mut chat = std::process::Command::new(env!("CARGO_BIN_EXE_wgoose"));
    chat.args(["chat", "good.gguf", "--backend", "cpu"]).current_dir(folder.path());
    chat.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    std::io::Write::write_all(&mut chat.stdin.take().unwrap(), b"/load fifo\n/quit\n").unwrap();
    let stderr = String::from_utf8(chat.wait_with_output().unwrap().stderr).unwrap();
    assert!(stderr.contains("fifo") && stderr.contains("not a regular file"), "{stderr}");
}

#[test]
fn wrong_usage_is_explained() {
    let folder = folder();
    for (line, says) in USAGE {
        let (code, stderr) = fails(folder.path(), line);
        assert!(code == 2 && stderr.contains(says), "{line}: {code} {stderr}");
    }
}

#[test]
fn a_model_without_all_bytes_still_takes_token_ids() {
    let folder = folder();
    let line = "dev logits few-bytes.gguf --tokens tokens.json --out logits.npy";
    assert!(wgoose(folder.path(), line.split_whitespace()).status.success());
}

#[test]
fn seeds_that_are_none_are_refused_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let tune = |text: &str| {
        std::fs::write(folder.path().join("seeds.json"), text).unwrap();
        let output = wgoose(folder.path(), ["tune", "none.gguf", "--seeds", "seeds.json"]);
        (output.status.code(), said(output))
    };
    let line = "wgoose: seeds seeds.json: missing field `variant` at line 2 column 17\n";
    assert_eq!(tune("[\n {\"op\": \"matmul\"}]"), (Some(1), line.to_owned()));
    let (code, said) = tune("none");
    assert!(
        code == Some(1) && said.starts_with("wgoose: seeds seeds.json: expected ") && said.lines().count() == 1,
        "{said}"
    );
}
