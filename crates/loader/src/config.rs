//! The `config.json` and `tokenizer_config.json` beside a model, as Hugging Face's libraries write them.
//!
//! The keys are the fields of `RWKV7Config` in flash-linear-attention (`fla/models/rwkv7/configuration_rwkv7.py`) and
//! of `Rwkv7Config` in transformers (`models/rwkv7/configuration_rwkv7.py`). `fuse_norm` chooses a kernel there, and
//! says nothing of the weights.

use crate::contents::{Contents, Size};
use crate::error::LoadError;
use std::path::{Path, PathBuf};
use wgoose_graph::{Format, ModelShape};

/// What the two files say, as far as a model depends on it.
#[derive(Debug)]
pub(crate) struct Config {
    /// The `config.json`.
    path: PathBuf,
    /// Sizes of the model, with the keys that state them.
    sizes: Vec<(&'static str, Size, u64)>,
    norm_epsilon: Option<f64>,
    group_norm_epsilon: Option<f64>,
    /// Whether the norm of the embeddings (`ln0`) is part of the embeddings, so that the model has none; where stated.
    pub(crate) embedding_norm_fused: Option<bool>,
    /// The type in which the tensors were saved, where stated.
    dtype: Option<String>,
    /// The class of the tokenizer, where stated.
    tokenizer: Option<String>,
    chat_template: Option<String>,
}

/// What a `config.json` says that no RWKV-7 model says.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON, or has values of other kinds.
    #[error("{0} (copy it again, or move it away if it is not of this model)")]
    Json(#[from] serde_json::Error),
    /// Another architecture.
    #[error("a model of type '{0}': only 'rwkv7' can be run (move the file away if it is not of this model)")]
    ModelType(String),
    /// Another function in the channel mix.
    #[error("'hidden_act' is '{0}': RWKV-7 has the square of relu ('sqrelu')")]
    Activation(String),
    /// Layers of attention among those of RWKV-7.
    #[error("'attn' asks for layers of softmax attention: such hybrids cannot be run")]
    Attention,
    /// The norm of the heads has another epsilon than every RWKV-7 model has.
    #[error("'group_norm_epsilon' is {declared}: RWKV-7 with heads of {head_size} is defined with {defined}")]
    GroupNorm {
        /// What the file states.
        declared: f64,
        /// The size of a head.
        head_size: u32,
        /// What the model has.
        defined: f64,
    },
    /// The embeddings are said to have their norm in them, and the norm is there as well.
    #[error("'embedding_layer_norm_fused' is true, but the model has tensor '{tensor}'")]
    FusedNorm {
        /// A tensor of the norm.
        tensor: String,
    },
}

/// The keys that are read.
#[derive(serde::Deserialize)]
struct Text {
    model_type: Option<String>,
    architectures: Option<Vec<String>>,
    num_hidden_layers: Option<u64>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    head_dim: Option<u64>,
    head_size: Option<u64>,
    vocab_size: Option<u64>,
    decay_low_rank_dim: Option<u64>,
    a_low_rank_dim: Option<u64>,
    v_low_rank_dim: Option<u64>,
    gate_low_rank_dim: Option<u64>,
    norm_eps: Option<f64>,
    layer_norm_epsilon: Option<f64>,
    group_norm_epsilon: Option<f64>,
    norm_first: Option<bool>,
    embedding_layer_norm_fused: Option<bool>,
    hidden_act: Option<String>,
    attn: Option<serde_json::Value>,
    torch_dtype: Option<String>,
    dtype: Option<String>,
}

#[derive(serde::Deserialize)]
struct TokenizerText {
    tokenizer_class: Option<String>,
    chat_template: Option<TemplateText>,
}

/// A template, or several by name.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum TemplateText {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(serde::Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl TemplateText {
    /// The template of ordinary chats.
    fn usual(self) -> Option<String> {
        match self {
            TemplateText::One(template) => Some(template),
            TemplateText::Named(named) => {
                named.into_iter().find(|named| named.name == "default").map(|named| named.template)
            }
        }
    }
}

/// How `model_type` begins, and in any case the class of the model.
const MODEL_TYPE: &str = "rwkv7";

/// What the activation is called that RWKV-7 has.
const ACTIVATIONS: [&str; 3] = ["sqrelu", "relu2", "relu_squared"];

impl Config {
    /// That of the folder of a model file, if there is one. Where the file may have nothing to do with the model
    /// (`is_its_own` is false), one of another architecture is none.
    pub(crate) fn beside(file: &Path, is_its_own: bool) -> Result<Option<Config>, LoadError> {
        let path = file.with_file_name("config.json");
        let Some(text) = read(&path)? else { return Ok(None) };
        let of_file = |why: ConfigError| LoadError::from(why).of_file(&path);
        let text: Text = match serde_json::from_slice(&text) {
            Ok(text) => text,
            Err(_) if !is_its_own => return Ok(None),
            Err(why) => return Err(of_file(why.into())),
        };
        match text.architecture() {
            Some(name) if name.to_ascii_lowercase().starts_with(MODEL_TYPE) => {}
            Some(other) if is_its_own => return Err(of_file(ConfigError::ModelType(other.clone()))),
            // It is not of this model, or describes none.
            Some(_) | None => return Ok(None),
        }
        let mut config = Config::of(path.clone(), text).map_err(of_file)?;
        let path = file.with_file_name("tokenizer_config.json");
        if let Some(text) = read(&path)? {
            let text = serde_json::from_slice(&text).map_err(ConfigError::from);
            let text: TokenizerText = text.map_err(|why| LoadError::from(why).of_file(&path))?;
            config.tokenizer = text.tokenizer_class;
            config.chat_template = text.chat_template.and_then(TemplateText::usual);
        }
        let path = file.with_file_name("chat_template.jinja");
        if let Some(text) = read(&path)? {
            config.chat_template = Some(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(Some(config))
    }

    fn of(path: PathBuf, text: Text) -> Result<Config, ConfigError> {
        if let Some(other) = text.hidden_act.filter(|act| !ACTIVATIONS.contains(&act.as_str())) {
            return Err(ConfigError::Activation(other));
        }
        if text.attn.is_some() {
            return Err(ConfigError::Attention);
        }
        let sizes = [
            ("num_hidden_layers", Size::Layers, text.num_hidden_layers),
            ("hidden_size", Size::Width, text.hidden_size),
            ("intermediate_size", Size::Ffn, text.intermediate_size),
            ("head_dim", Size::Head, text.head_dim),
            ("head_size", Size::Head, text.head_size),
            ("vocab_size", Size::Vocab, text.vocab_size),
            ("decay_low_rank_dim", Size::DecayRank, text.decay_low_rank_dim),
            ("a_low_rank_dim", Size::IclrRank, text.a_low_rank_dim),
            ("v_low_rank_dim", Size::ValueRank, text.v_low_rank_dim),
            ("gate_low_rank_dim", Size::GateRank, text.gate_low_rank_dim),
        ];
        let stated = sizes.into_iter().filter_map(|(key, size, value)| Some((key, size, value?)));
        Ok(Config {
            path,
            sizes: stated.collect(),
            norm_epsilon: text.norm_eps.or(text.layer_norm_epsilon),
            group_norm_epsilon: text.group_norm_epsilon,
            // flash-linear-attention has the norm unless `norm_first` is false.
            embedding_norm_fused: text.embedding_layer_norm_fused.or(text.norm_first.map(|first| !first)),
            dtype: text.torch_dtype.or(text.dtype),
            tokenizer: None,
            chat_template: None,
        })
    }

    /// Adds what the files say to what the model's files say themselves.
    pub(crate) fn declare(&self, contents: &mut Contents) {
        contents.declared.extend(&self.sizes);
        contents.norm_epsilon = contents.norm_epsilon.or(self.norm_epsilon);
        contents.about.tokenizer.clone_from(&self.tokenizer);
        contents.about.chat_template.clone_from(&self.chat_template);
    }

    /// Refuses what the model contradicts beyond its sizes: `norm` is a tensor of the norm of the embeddings, if it has
    /// one.
    pub(crate) fn check(&self, shape: &ModelShape, norm: Option<&str>) -> Result<(), LoadError> {
        let defined = f64::from(shape.head_size) * 1e-5;
        let refused = match (self.group_norm_epsilon, norm) {
            (Some(declared), _) if (declared - defined).abs() > 1e-8 || declared.is_nan() => {
                ConfigError::GroupNorm { declared, head_size: shape.head_size, defined }
            }
            (_, Some(tensor)) if self.embedding_norm_fused == Some(true) => {
                ConfigError::FusedNorm { tensor: tensor.to_owned() }
            }
            _ => return Ok(()),
        };
        Err(LoadError::from(refused).of_file(&self.path))
    }

    /// Says in which type the tensors are, where it is another one than the file says: they run as they are.
    pub(crate) fn compare_dtype(&self, found: Format) {
        let stated = self.dtype.as_deref().map(|name| name.trim_start_matches("torch."));
        let format = match stated {
            Some("float32") => Format::F32,
            Some("float16") => Format::F16,
            Some("bfloat16") => Format::BF16,
            _ => return,
        };
        if format != found {
            tracing::warn!("{}: says {format}, the embeddings are {found}: they run as they are", self.path.display());
        }
    }

    /// Names the file in errors about what it says.
    pub(crate) fn name_file(&self, why: LoadError) -> LoadError {
        let is_from_here = match &why {
            LoadError::Contradiction { key, .. } => self.sizes.iter().any(|(own, ..)| own == key),
            LoadError::NormEpsilon { .. } => self.norm_epsilon.is_some(),
            _ => false,
        };
        if is_from_here { why.of_file(&self.path) } else { why }
    }
}

impl Text {
    /// The type of model that it describes: its `model_type`, or else the first of its `architectures`.
    fn architecture(&self) -> Option<&String> {
        self.model_type.as_ref().or_else(|| self.architectures.as_ref()?.first())
    }
}

/// The content of a file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match path.is_file() {
        true => wgoose_files::read(path).map(Some).map_err(|source| LoadError::Io { path: path.to_owned(), source }),
        false => Ok(None),
    }
}
