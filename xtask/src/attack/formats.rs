//! What is damaged: a valid input of every format that the tool reads, and the commands that read it.

/// A format.
pub(super) struct Format {
    /// What it is called.
    pub(super) name: &'static str,
    /// The valid input, below the folder of valid inputs: a file, or a folder of which one file is damaged.
    pub(super) valid: &'static str,
    /// Commands of the tool that read it, one of them by turns; `@` stands for the damaged input without its extension.
    pub(super) reads: &'static [&'static str],
    /// What the commands read from standard input.
    pub(super) says: &'static str,
    /// What tells whether a command that succeeded was right.
    pub(super) proof: Proof,
}

/// What tells whether a command that succeeded was right.
#[derive(Clone, Copy)]
pub(super) enum Proof {
    /// Nothing: another input has another result.
    None,
    /// The logits in `out.npy` are those of the valid input, unless this command says that something is wrong.
    Logits(Option<&'static str>),
}

/// Commands that make the valid inputs, in their folder.
pub(super) const MAKES: &[&str] = &[
    "synth model.gguf --layers 1 --width 64 --ffn 64 --head-size 32 --vocab 320 --ranks 8,8,8,8 --seed 1",
    "convert model.gguf model.st",
    "tune model.gguf --out plan.ron --budget 8 --chunks 16",
    "verify model.gguf --cache cache --no-cache",
    "embed model.gguf --file texts.txt --backend cpu --store store",
    "bench --model model.gguf --backend cpu --prefill-tokens 4 --decode-tokens 2 --runs 1 --title a --change b --cache cache --out bench.md",
    "logits model.gguf --tokens ids.json --no-cache --plan default --out right.npy",
];

/// Every format.
pub(super) const ALL: &[Format] = &[
    Format {
        name: "gguf",
        valid: "model.gguf",
        reads: &["info @.gguf", "info @.gguf", "logits @.gguf --backend cpu --tokens ids.json --out out.npy"],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "safetensors",
        valid: "model.st",
        reads: &["info @.st", "info @.st", "logits @.st --backend cpu --tokens ids.json --out out.npy"],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "pth",
        valid: "model.pth",
        reads: &["info @.pth", "info @.pth", "logits @.pth --backend cpu --tokens ids.json --out out.npy"],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "plan",
        valid: "plan.ron",
        reads: &["info @.ron", "logits model.gguf --tokens ids.json --out out.npy --plan @.ron --foreign-plan"],
        says: "",
        proof: Proof::Logits(None),
    },
    Format {
        name: "kernels",
        valid: "kernels",
        reads: &[
            "graph model.gguf --dispatches 1 --kernels @",
            "logits model.gguf --tokens ids.json --out out.npy --no-cache --plan default --kernels @",
        ],
        says: "",
        proof: Proof::Logits(Some("verify model.gguf --cache cache --no-cache --plan default --kernels @")),
    },
    Format {
        name: "reference",
        valid: "cache",
        reads: &["verify model.gguf --cache @ --plan default"],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "ledger",
        valid: "plan.jsonl",
        reads: &["plan --from @.jsonl", "plan --from @.jsonl --out out.ron"],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "record",
        valid: "bench.jsonl",
        reads: &[
            "bench --model model.gguf --backend cpu --prefill-tokens 4 --decode-tokens 2 --runs 1 --title a --change b --cache cache --out @.md",
        ],
        says: "",
        proof: Proof::None,
    },
    Format {
        name: "state",
        valid: "state",
        reads: &["chat model.gguf --backend cpu --max-tokens 2"],
        says: "/load @\nhi\n/save saved\n/quit\n",
        proof: Proof::None,
    },
    Format {
        name: "store",
        valid: "store",
        reads: &["embed model.gguf --file texts.txt --backend cpu --store @"],
        says: "",
        proof: Proof::None,
    },
];
