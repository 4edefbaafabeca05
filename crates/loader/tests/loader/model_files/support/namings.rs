//! The namings that files of models have, each made of the authors' names as the programs that write them do it.

/// One naming.
#[derive(Clone, Copy)]
pub(crate) struct Renaming {
    /// Title of the naming.
    pub(crate) title: &'static str,
    /// The name in place of one of the authors'.
    pub(crate) rename: fn(&str) -> String,
    /// Whether adapters are `[C, rank]` and `[rank, C]`, as the authors have them; `None` if the container decides.
    pub(crate) in_out: Option<bool>,
    /// Whether the six mixes of a layer are one tensor, under the name of the first.
    pub(crate) is_stacked: bool,
}

const fn naming(title: &'static str, in_out: Option<bool>, rename: fn(&str) -> String) -> Renaming {
    Renaming { title, rename, in_out, is_stacked: false }
}

/// Every naming.
pub(crate) const NAMINGS: [Renaming; 16] = [
    naming("authors", None, str::to_owned),
    naming("flash-linear-attention", Some(false), fla),
    Renaming {
        is_stacked: true,
        ..naming("flash-linear-attention, first version", Some(false), |name| {
            fla(name).replace(".attn.x_r", ".attn.x_x")
        })
    },
    naming("port", Some(true), |name| port("rwkv7.", name)),
    naming("port, embeddings", Some(true), |name| port("rwkv7.", &embeddings(name))),
    naming("port, model", Some(true), |name| port("model.", name)),
    naming("port, model and embeddings", Some(true), |name| port("model.", &embeddings(name))),
    naming("decoder", Some(true), |name| {
        decoder(name).replace("mlp.key", "mlp.up_proj").replace("mlp.value", "mlp.down_proj")
    }),
    naming("decoder, key and value", Some(true), decoder),
    naming("compiled", None, |name| format!("_orig_mod.{name}")),
    naming("distributed and compiled", None, |name| format!("module._orig_mod.{name}")),
    naming("in a module rwkv", None, |name| format!("rwkv.{name}")),
    naming("in a module model", None, |name| format!("model.{name}")),
    naming("flash-linear-attention, distributed", Some(false), |name| format!("module.{}", fla(name))),
    naming("port in a module rwkv", Some(true), |name| format!("rwkv.{}", port("rwkv7.", name))),
    naming("port, compiled by layers", Some(true), |name| port("rwkv7.", name).replace(".att.", "._orig_mod.att.")),
];

/// As `convert_from_rwkv7.py` of flash-linear-attention.
fn fla(name: &str) -> String {
    match in_layer(name) {
        Err("emb.weight") => "model.embeddings.weight".to_owned(),
        Err("head.weight") => "lm_head.weight".to_owned(),
        Err(other) => other.replace("ln_out.", "model.norm."),
        Ok((layer, rest)) => {
            let lora = |stem: &str, which| {
                let part = ["2.bias", "0.weight", "2.weight"][which as usize - '0' as usize];
                format!("attn.{stem}_lora.lora.{part}")
            };
            let rest = match rest.strip_prefix("att.").map(|own| own.chars().collect::<Vec<_>>()).as_deref() {
                Some([stem @ ('w' | 'a' | 'v' | 'g'), which @ '0'..='2']) => lora(&stem.to_string(), *which),
                Some(_) => projections(rest).replace("att.", "attn."),
                None => rest.replace("ln0.", "pre_norm.").replace("ln1.", "attn_norm.").replace("ln2.", "ffn_norm."),
            };
            format!("model.layers.{layer}.{rest}")
        }
    }
}

/// As `convert_rwkv7_checkpoint_to_hf.py` of transformers.
fn port(body: &str, name: &str) -> String {
    if name == "head.weight" { name.to_owned() } else { format!("{body}{name}") }
}

fn embeddings(name: &str) -> String {
    name.replace("emb.weight", "embeddings.weight")
}

/// As `rwkv_pth2st.py` of transformers-rwkv.
fn decoder(name: &str) -> String {
    match in_layer(name) {
        Err("emb.weight") => "model.embed_tokens.weight".to_owned(),
        Err("head.weight") => "lm_head.weight".to_owned(),
        Err(other) => other.replace("ln_out.", "model.norm."),
        Ok((_, rest)) if rest.starts_with("ln0.") => rest.replace("ln0.", "model.embedding_norm."),
        Ok((layer, rest)) => {
            let rest = projections(rest).replace("att.", "linear_attn.").replace("ffn.", "mlp.");
            let rest = rest.replace("ln1.", "input_layernorm.").replace("ln2.", "post_attention_layernorm.");
            format!("model.layers.{layer}.{rest}")
        }
    }
}

/// The matrices and the norm of the time mix.
fn projections(name: &str) -> String {
    let pairs = [
        ("receptance.", "r_proj."),
        ("key.", "k_proj."),
        ("value.", "v_proj."),
        ("output.", "o_proj."),
        ("ln_x.", "g_norm."),
    ];
    let rename =
        |name: String, (ours, theirs): (&str, &str)| name.replace(&format!("att.{ours}"), &format!("att.{theirs}"));
    pairs.into_iter().fold(name.to_owned(), rename)
}

/// The layer of one of the authors' names, and what follows; the name itself where it speaks of none.
fn in_layer(name: &str) -> Result<(&str, &str), &str> {
    name.strip_prefix("blocks.").and_then(|rest| rest.split_once('.')).ok_or(name)
}
