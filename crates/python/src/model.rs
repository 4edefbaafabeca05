//! The model, as Python sees it: a session, a sequence to embed in, and the tokenizer.

use crate::batch;
use crate::boundary::outside;
use crate::completion::{CompletionStream, Heading, whole};
use crate::embedding::{array, dims, embed, options as embed_options};
use crate::error::{Error, InputError, LoadError, of_session};
use crate::fork::{self, OfProcess};
use crate::generation::{Generation, finish_reason};
use crate::grammar::{self, Grammar};
use crate::input;
use crate::load::{Adapter, Bytes, Merging, Options};
use crate::running;
use crate::sampling::Sampling;
use crate::state::{self, State};
use numpy::PyArrayDyn;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use wgoose_loader as loader;
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{ModelVocabularyError, Session, SessionError, after_thoughts, one_line};

/// An RWKV-7 model, and the state of what it has read.
///
/// `read`, `logits`, `reset`, `load_state` and setting `state` change the state. `generate` and `create_completion` begin
/// with it, each in a sequence of its own; `embed` and `embed_batch` begin with nothing. None of these changes it. A model
/// may be used from several threads: calls that use its state take turns.
#[pyclass(frozen, module = "wgoose")]
pub(crate) struct Model {
    path: PathBuf,
    file: Arc<loader::Model>,
    session: OfProcess<Mutex<Session>>,
    /// Embeddings have a session apart, shared by forks: one has room for many texts, and they wait for no state.
    embedder: OfProcess<Arc<OnceLock<Mutex<Session>>>>,
    tokenizer: Arc<Result<Tokenizer, ModelVocabularyError>>,
}

impl Model {
    /// Runs something on the session while other Python threads go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut Session) -> Result<T, SessionError> + Send,
    ) -> PyResult<T> {
        let session = self.session.get()?;
        outside(py, || run(&mut session.lock()))?.map_err(|e| of_session(&e))
    }

    fn tokenizer(&self) -> PyResult<&Tokenizer> {
        fork::enter()?;
        self.tokenizer.as_ref().as_ref().map_err(|why| of_session(&SessionError::Vocabulary(why.clone())))
    }

    fn tokens(&self, input: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        input::tokens(input, &self.tokenizer())
    }

    fn embedder(&self, py: Python<'_>) -> PyResult<&Mutex<Session>> {
        let embedder = self.embedder.get()?;
        if let Some(embedder) = embedder.get() {
            return Ok(embedder);
        }
        let fork = self.with(py, Session::fork)?;
        Ok(embedder.get_or_init(|| Mutex::new(fork)))
    }

    fn start(&self, py: Python<'_>, prompt: Vec<u32>, sampling: Sampling<'_, '_>) -> PyResult<Generation> {
        let options = sampling.options(self.file.shape().vocab)?;
        let session = self.with(py, Session::fork)?;
        Generation::start(session, prompt, options).map_err(|e| Error::new_err(format!("no thread starts: {e}")))
    }
}

#[pymethods]
impl Model {
    /// Opens a model: a GGUF, safetensors or .pth file, shards or their index, or a folder. Weights reach the GPU on
    /// first use.
    ///
    /// plan: a file made by `tune`, or 'default' for the device's default; None finds the plan that `tune` filed for this device
    /// and model, else one that ships, else the default. foreign_plan: accept a file made on another device. device: an
    /// adapter's index, PCI address, UUID, or an unambiguous part of its name. cpu: run on the slow reference instead.
    /// gpu_budget: most GPU memory to use, bytes or text such as '600MiB'; weights that do not fit pass through a ring.
    /// eager: upload every weight at once.
    /// chunk: most tokens in one pass. batch_invariant: identical bits for a sequence at every batch size and however
    /// its tokens are split into passes; decoding is slower. prefix_cache: memory for the states of prompts, off unless
    /// given. embedding_cache, embedding_store: memory and a file for embeddings, off unless given. ignore_unknown: run
    /// a model without the tensors that no op reads; otherwise such a file is a LoadError. adapter: a file with a LoRA,
    /// PiSSA, DiSHA (Bone) or MiSS that is merged into the weights, or a tuple of it and the factor of what it adds.
    /// adapter_initial: the init_pissa.pth of a PiSSA.
    /// vocab: a vocabulary file, or 'world', for a model whose file has none and that has other than 65536 tokens.
    ///
    /// Raises LoadError, DeviceError, PlanError, InputError; KeyboardInterrupt at once, while a thread ends what was begun; in a
    /// process that was forked from one that had used wgoose, ForkError, as every call does there.
    #[staticmethod]
    #[pyo3(signature = (path, plan=None, device=None, gpu_budget=None, cpu=false, *, foreign_plan=false, eager=false,
        chunk=None, prefix_cache=None, embedding_cache=None, embedding_store=None, ignore_unknown=false,
        vocab=None, adapter=None, adapter_initial=None, batch_invariant=false))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        plan: Option<PathBuf>,
        device: Option<Adapter>,
        gpu_budget: Option<Bytes>,
        cpu: bool,
        foreign_plan: bool,
        eager: bool,
        chunk: Option<u32>,
        prefix_cache: Option<Bytes>,
        embedding_cache: Option<Bytes>,
        embedding_store: Option<PathBuf>,
        ignore_unknown: bool,
        vocab: Option<PathBuf>,
        adapter: Option<Merging>,
        adapter_initial: Option<PathBuf>,
        batch_invariant: bool,
    ) -> PyResult<Self> {
        fork::enter()?;
        let options = Options {
            plan,
            foreign_plan,
            ignore_unknown,
            vocab,
            adapter: Merging::source(adapter, adapter_initial)?,
            device,
            cpu,
            gpu_budget,
            eager,
            chunk,
            prefix_cache,
            embedding_cache,
            embedding_store,
            batch_invariant,
        };
        let builder = options.builder()?;
        running::wait_for(py, move || {
            let file = builder.open_file(&path).map_err(|e| LoadError::new_err(one_line(&e)))?;
            let session = builder.open_model(Arc::clone(&file)).map_err(|e| of_session(&e))?;
            let tokenizer = match session.tokenizer() {
                Ok(tokenizer) => Ok(tokenizer.clone()),
                Err(SessionError::Vocabulary(why)) => Err(why),
                Err(e) => return Err(of_session(&e)),
            };
            Ok(Model {
                path,
                file,
                session: OfProcess::new(Mutex::new(session)),
                embedder: OfProcess::new(Arc::default()),
                tokenizer: Arc::new(tokenizer),
            })
        })?
    }

    /// The token ids of a str or bytes.
    #[pyo3(signature = (text))]
    fn encode(&self, text: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let (py, text, tokenizer) = (text.py(), input::bytes(text)?, self.tokenizer());
        let tokenizer = tokenizer?;
        outside(py, || tokenizer.encode(&text))
    }

    /// The text of token ids; bytes that are no character become U+FFFD.
    fn decode(&self, tokens: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(String::from_utf8_lossy(&self.bytes_of(tokens.py(), &self.tokens(tokens)?)?).into_owned())
    }

    /// The same as `encode`, by the name that llama-cpp-python has for it. The vocabulary has no token for a beginning and
    /// none that stands for a marker in the text, so add_bos and special change nothing.
    #[pyo3(signature = (text, add_bos=false, special=false))]
    fn tokenize(&self, text: &Bound<'_, PyAny>, add_bos: bool, special: bool) -> PyResult<Vec<u32>> {
        let _ = (add_bos, special);
        self.encode(text)
    }

    /// The bytes of token ids, which may begin or end within a character.
    fn detokenize<'py>(&self, tokens: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(tokens.py(), &self.bytes_of(tokens.py(), &self.tokens(tokens)?)?))
    }

    /// Compiles a grammar for this model: of JSON of a schema (a dict or its JSON), of what a regular expression matches as
    /// a whole, of one of several texts, or of a grammar in Lark's notation or llama.cpp's (GBNF).
    ///
    /// answer: a blank may come before the text, as a chat's prompt ends with "Assistant:". think: it applies once the
    /// thoughts have ended.
    ///
    /// Raises InputError where it cannot be honoured.
    #[pyo3(signature = (*, json_schema=None, regex=None, choice=None, grammar=None, answer=false, think=false))]
    fn grammar(
        &self,
        py: Python<'_>,
        json_schema: Option<&Bound<'_, PyAny>>,
        regex: Option<String>,
        choice: Option<Vec<String>>,
        grammar: Option<String>,
        answer: bool,
        think: bool,
    ) -> PyResult<Grammar> {
        let source = grammar::source(json_schema, regex, choice, grammar)?;
        let compiler = self.with(py, |session| Ok(Arc::clone(session.grammars()?)))?;
        let compiled =
            outside(py, || if answer { compiler.compile_answer(&source) } else { compiler.compile(&source) })?;
        let compiled = compiled.map_err(|why| of_session(&why.into()))?;
        Ok(Grammar(if think { after_thoughts(compiled.clone()).unwrap_or(compiled) } else { compiled }))
    }

    /// Continues a prompt, text or token ids: an iterator over text as it comes.
    ///
    /// max_tokens None goes on until the text ends by itself. temperature 0 is greedy; top_p keeps the likeliest
    /// tokens whose probabilities reach this sum, top_k at most that many (0: all), min_p of these those at least this
    /// times as likely as the likeliest, typical of these those nearest to the expected information until their
    /// probabilities reach this sum. The same seed, plan and device give the same text; seed None draws one. stop: a
    /// string, or several, before which the text ends; stop_tokens: tokens that end it as end-of-text (0) does.
    /// presence_penalty is subtracted from the logit of every token chosen before, frequency_penalty for each time
    /// that it was; penalty_decay: factor by which these counts shrink with every token. repetition_penalty divides
    /// the positive logits of tokens in the prompt or chosen before, and multiplies the others. logit_bias: a dict of
    /// tokens and what is added to their logits; minus infinity never chooses one. grammar: what the text has to be,
    /// see `grammar`.
    ///
    /// Raises InputError, DeviceError; KeyboardInterrupt ends the generation.
    #[pyo3(signature = (prompt, max_tokens=128, temperature=1.0, top_p=0.5, top_k=0, seed=0, stop=None, *,
        presence_penalty=0.0, frequency_penalty=0.0, penalty_decay=1.0, repetition_penalty=1.0, min_p=0.0, typical=1.0,
        logit_bias=None, stop_tokens=None,
        grammar=None))]
    #[pyo3(
        text_signature = "($self, prompt, max_tokens=128, temperature=1.0, top_p=0.5, top_k=0, seed=0, stop=None, *, \
        presence_penalty=0.0, frequency_penalty=0.0, penalty_decay=1.0, repetition_penalty=1.0, min_p=0.0, typical=1.0, \
        logit_bias=None, stop_tokens=None, \
        grammar=None)"
    )]
    fn generate(
        &self,
        prompt: &Bound<'_, PyAny>,
        max_tokens: Option<usize>,
        temperature: f32,
        top_p: f32,
        top_k: usize,
        seed: Option<u64>,
        stop: Option<&Bound<'_, PyAny>>,
        presence_penalty: f32,
        frequency_penalty: f32,
        penalty_decay: f32,
        repetition_penalty: f32,
        min_p: f32,
        typical: f32,
        logit_bias: Option<BTreeMap<u32, f32>>,
        stop_tokens: Option<Vec<u32>>,
        grammar: Option<&Bound<'_, Grammar>>,
    ) -> PyResult<Generation> {
        let sampling = Sampling {
            max_tokens,
            temperature,
            top_p,
            top_k,
            seed,
            stop,
            presence_penalty,
            frequency_penalty,
            penalty_decay,
            repetition_penalty,
            min_p,
            typical,
            logit_bias,
            stop_tokens,
            grammar: grammar.map(Bound::get),
        };
        self.start(prompt.py(), self.tokens(prompt)?, sampling)
    }

    /// Continues several texts together, up to so many at once: a list of dicts as `create_completion` has them, in the order
    /// of the prompts. Each begins with the model's state, and gives the text that it gives alone, unless the plan has other
    /// kernels for so many and two tokens are as likely but for rounding. The options are those of `generate`.
    ///
    /// Raises InputError, DeviceError; KeyboardInterrupt between steps.
    #[pyo3(signature = (prompts, max_tokens=128, temperature=1.0, top_p=0.5, top_k=0, seed=0, stop=None, *, together=16,
        presence_penalty=0.0, frequency_penalty=0.0, penalty_decay=1.0, repetition_penalty=1.0, min_p=0.0, typical=1.0,
        logit_bias=None, stop_tokens=None,
        grammar=None))]
    fn generate_batch<'py>(
        &self,
        py: Python<'py>,
        prompts: &Bound<'py, PyAny>,
        max_tokens: Option<usize>,
        temperature: f32,
        top_p: f32,
        top_k: usize,
        seed: Option<u64>,
        stop: Option<&Bound<'py, PyAny>>,
        together: usize,
        presence_penalty: f32,
        frequency_penalty: f32,
        penalty_decay: f32,
        repetition_penalty: f32,
        min_p: f32,
        typical: f32,
        logit_bias: Option<BTreeMap<u32, f32>>,
        stop_tokens: Option<Vec<u32>>,
        grammar: Option<&Bound<'_, Grammar>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let sampling = Sampling {
            max_tokens,
            temperature,
            top_p,
            top_k,
            seed,
            stop,
            presence_penalty,
            frequency_penalty,
            penalty_decay,
            repetition_penalty,
            min_p,
            typical,
            logit_bias,
            stop_tokens,
            grammar: grammar.map(Bound::get),
        };
        if together == 0 {
            return Err(InputError::new_err("together is at least 1"));
        }
        let options = sampling.options(self.file.shape().vocab)?;
        let prompts = input::several(prompts)?.map(|text| input::bytes(&text?)).collect::<PyResult<Vec<_>>>()?;
        let batch = self.with(py, |session| session.batch(together.min(prompts.len())))?;
        let generated = batch::generate(py, batch, &prompts, &options)?;
        let dicts = generated.iter().map(|(text, generated)| {
            let heading = Heading::new(self.path.to_string_lossy().into_owned());
            let counts = (generated.prompt_tokens, generated.tokens.len());
            heading.whole(py, text, finish_reason(generated), counts)
        });
        dicts.collect()
    }

    /// Continues a prompt: a dict as OpenAI's API has it, or, with stream=True, an iterator over dicts with a piece each.
    ///
    /// The options are those of `generate`; echo puts the prompt before the text.
    #[pyo3(signature = (prompt, max_tokens=128, temperature=1.0, top_p=0.5, top_k=0, seed=0, stop=None, stream=false,
        echo=false, presence_penalty=0.0, frequency_penalty=0.0, *, penalty_decay=1.0, repetition_penalty=1.0, min_p=0.0,
        typical=1.0, logit_bias=None,
        stop_tokens=None, grammar=None))]
    fn create_completion<'py>(
        &self,
        prompt: &Bound<'py, PyAny>,
        max_tokens: Option<usize>,
        temperature: f32,
        top_p: f32,
        top_k: usize,
        seed: Option<u64>,
        stop: Option<&Bound<'py, PyAny>>,
        stream: bool,
        echo: bool,
        presence_penalty: f32,
        frequency_penalty: f32,
        penalty_decay: f32,
        repetition_penalty: f32,
        min_p: f32,
        typical: f32,
        logit_bias: Option<BTreeMap<u32, f32>>,
        stop_tokens: Option<Vec<u32>>,
        grammar: Option<&Bound<'_, Grammar>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = prompt.py();
        let sampling = Sampling {
            max_tokens,
            temperature,
            top_p,
            top_k,
            seed,
            stop,
            presence_penalty,
            frequency_penalty,
            penalty_decay,
            repetition_penalty,
            min_p,
            typical,
            logit_bias,
            stop_tokens,
            grammar: grammar.map(Bound::get),
        };
        let tokens = self.tokens(prompt)?;
        let echo = match (echo, input::bytes(prompt)) {
            (false, _) => String::new(),
            (true, Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
            (true, Err(_)) => String::from_utf8_lossy(&self.bytes_of(py, &tokens)?).into_owned(),
        };
        let generation = self.start(py, tokens, sampling)?;
        let heading = Heading::new(self.path.to_string_lossy().into_owned());
        match stream {
            true => Ok(CompletionStream::new(heading, generation, echo).into_pyobject(py)?.into_any()),
            false => Ok(whole(py, &heading, &generation, &echo)?.into_any()),
        }
    }

    /// The embedding of a text, or of token ids: float32, [width] for pooling 'mean' and 'last', [tokens, width] for
    /// 'every', [heads, value, key] for 'state' (the WKV state of the layer instead of hidden states). Without a
    /// pooling it is the mean, or head 'retr' of a model that has it.
    ///
    /// head: 'cls', 'sts' or 'retr', of an embedding model (EmbeddingRWKV), instead of a pooling: [width]; each text is
    /// read with token 65535 behind it. layer: take hidden states after this layer, from 0, instead of after the last
    /// norm. normalise: divide each row by its length. prefix: text or tokens read before, such as an instruction.
    /// token_budget: most tokens of several texts in one pass; changes no bit.
    ///
    /// Raises InputError, DeviceError.
    #[pyo3(signature = (text, *, layer=None, pooling=None, head=None, normalise=true, prefix=None, token_budget=None))]
    fn embed<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        layer: Option<u32>,
        pooling: Option<&str>,
        head: Option<&str>,
        normalise: bool,
        prefix: Option<&Bound<'py, PyAny>>,
        token_budget: Option<NonZeroUsize>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let py = text.py();
        let prefix = prefix.map_or(Ok(Vec::new()), |prefix| self.tokens(prefix))?;
        let options = embed_options(&self.file, layer, pooling, head, normalise, prefix, token_budget)?;
        let texts = [self.tokens(text)?];
        let floats = embed(py, self.embedder(py)?, &texts, &options)?.pop().unwrap_or_default();
        array(py, &dims(&options, texts[0].len(), self.file.shape()), floats)
    }

    /// The embeddings of texts, or of lists of token ids: float32, a row each, [texts, width] or [texts, heads, value, key];
    /// a list of arrays for pooling 'every'. Bit for bit those of single calls. The options are those of `embed`.
    ///
    /// Raises InputError, DeviceError; KeyboardInterrupt between passes.
    #[pyo3(signature = (texts, *, layer=None, pooling=None, head=None, normalise=true, prefix=None, token_budget=None))]
    fn embed_batch<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
        layer: Option<u32>,
        pooling: Option<&str>,
        head: Option<&str>,
        normalise: bool,
        prefix: Option<&Bound<'py, PyAny>>,
        token_budget: Option<NonZeroUsize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = texts.py();
        let prefix = prefix.map_or(Ok(Vec::new()), |prefix| self.tokens(prefix))?;
        let options = embed_options(&self.file, layer, pooling, head, normalise, prefix, token_budget)?;
        let texts = input::several(texts)?.map(|text| self.tokens(&text?)).collect::<PyResult<Vec<_>>>()?;
        let embeddings = embed(py, self.embedder(py)?, &texts, &options)?;
        let shape = self.file.shape();
        if pooling == Some("every") {
            let arrays = texts.iter().zip(embeddings);
            let arrays = arrays.map(|(text, floats)| array(py, &dims(&options, text.len(), shape), floats));
            return Ok(arrays.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?.into_any());
        }
        let dims = [vec![texts.len()], dims(&options, 0, shape)].concat();
        Ok(array(py, &dims, outside(py, || embeddings.concat())?)?.into_any())
    }

    /// Reads text or token ids: goes on from the model's state, and changes it.
    ///
    /// Raises InputError, DeviceError, StateError; KeyboardInterrupt between passes, those before it were read.
    fn read(&self, text: &Bound<'_, PyAny>) -> PyResult<()> {
        self.logits(text, false).map(drop)
    }

    /// Reads text or token ids as `read` does; the logits after the last token, float32 [V], or after every one, [T, V].
    ///
    /// Raises InputError, DeviceError, StateError.
    #[pyo3(signature = (text, every=false))]
    fn logits<'py>(&self, text: &Bound<'py, PyAny>, every: bool) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let (py, tokens) = (text.py(), self.tokens(text)?);
        let vocab = self.file.shape().vocab as usize;
        let dims = if every { vec![tokens.len(), vocab] } else { vec![vocab] };
        let mut floats = Vec::new();
        // Whole passes, between which signals are looked at.
        let chunk = self.with(py, |session| Ok(session.chunk()))?;
        let mut rest = &tokens[..];
        loop {
            let (now, later) = rest.split_at(rest.len().min(chunk));
            let read = self.with(py, |session| if every { session.logits(now) } else { session.prefill(now) })?;
            if every {
                floats.extend(read);
            } else {
                floats = read;
            }
            if later.is_empty() {
                return array(py, &dims, floats);
            }
            py.check_signals()?;
            rest = later;
        }
    }

    /// What the model has read: arrays that share the memory of a copy made now. Setting it, to a State or to a dict of
    /// arrays, copies them to the device.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        Ok(State::new(self.with(py, Session::state)?, *self.file.shape()))
    }

    #[setter]
    fn set_state(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = state::from_python(value, self.file.shape())?;
        self.with(value.py(), |session| session.set_state(&data))
    }

    /// Forgets everything read.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Session::reset)
    }

    /// Writes the state to a file, whole or not at all.
    fn save_state(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |session| session.save_state(path))
    }

    /// Reads the state from a file written by `save_state`, or a tuned initial state; where it cannot, raises StateError
    /// and leaves the state as it was.
    fn load_state(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |session| session.load_state(path))
    }

    /// Another model that goes on from this one's state, on the same weights, kernels and caches.
    fn fork(&self, py: Python<'_>) -> PyResult<Model> {
        let session = OfProcess::new(Mutex::new(self.with(py, Session::fork)?));
        let embedder = OfProcess::new(Arc::clone(self.embedder.get()?));
        let tokenizer = Arc::clone(&self.tokenizer);
        Ok(Model { path: self.path.clone(), file: Arc::clone(&self.file), session, embedder, tokenizer })
    }

    /// What the model is and where it runs: a dict.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (device, plan) =
            self.with(py, |session| Ok((session.device().cloned(), session.plan().map(ToString::to_string))))?;
        let shape = self.file.shape();
        let info = PyDict::new(py);
        info.set_item("path", &self.path)?;
        info.set_item("container", self.file.container().to_string())?;
        info.set_item("fingerprint", self.file.fingerprint().to_string())?;
        info.set_item("file_bytes", self.file.file_len())?;
        info.set_item("state_bytes", shape.state_len() * 4)?;
        info.set_item("layers", shape.layers)?;
        info.set_item("width", shape.width)?;
        info.set_item("ffn", shape.ffn)?;
        info.set_item("heads", shape.heads())?;
        info.set_item("head_size", shape.head_size)?;
        info.set_item("vocab", shape.vocab)?;
        info.set_item("device", device.as_ref().map_or("CPU reference", |d| &d.adapter))?;
        info.set_item("driver", device.as_ref().map(|d| &d.driver))?;
        info.set_item("plan", plan)?;
        Ok(info)
    }

    fn __repr__(&self) -> String {
        let shape = self.file.shape();
        format!("<wgoose.Model {} ({} layers of {})>", self.path.display(), shape.layers, shape.width)
    }
}

impl Model {
    fn bytes_of(&self, py: Python<'_>, tokens: &[u32]) -> PyResult<Vec<u8>> {
        let tokenizer = self.tokenizer()?;
        outside(py, || tokenizer.decode(tokens))?.map_err(|e| InputError::new_err(e.to_string()))
    }
}
