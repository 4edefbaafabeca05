//! States in a folder: clients upload states, get states back, and continue conversations. A file is replaced as a
//! whole, so each file is complete even if the process is killed. A restarted server finds all states.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use wgoose_graph::ModelShape;
use wgoose_session::{ChatTurn, SessionError, StateData, initial_state, state_file};

/// Longest name of a state or a conversation.
const LONGEST_NAME: usize = 64;

/// Extension of the files.
const EXTENSION: &str = "st";

/// Who names a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateOwner {
    /// The server: states that clients upload or get back.
    Server,
    /// The client: its conversations.
    Client,
}

impl StateOwner {
    fn folder(self) -> &'static str {
        match self {
            StateOwner::Server => "states",
            StateOwner::Client => "conversations",
        }
    }
}

/// A state, and the turns of its chat; a state that no chat made has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatState {
    pub(crate) state: StateData,
    pub(crate) turns: Vec<ChatTurn>,
}

/// Why a state cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatesError {
    #[error("'{0}' is not an id: give 1 to {LONGEST_NAME} letters, digits, '-', '_' or '.', no '.' first")]
    Name(String),
    #[error("there is no state '{0}'")]
    Unknown(String),
    #[error("another request is answering conversation '{0}': wait for its end")]
    Busy(String),
    #[error("there is no room: a state has {bytes} bytes, and --state-bytes allows {most} in all; delete some")]
    Full { bytes: u64, most: u64 },
    #[error("there is another state '{0}': delete it first, or give the file another name")]
    Taken(String),
    #[error("{0}")]
    Refused(#[from] SessionError),
    #[error("{}: {why}", path.display())]
    Io { path: PathBuf, why: io::Error },
}

/// A stored state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredState {
    pub(crate) id: String,
    pub(crate) bytes: u64,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

impl StoredState {
    fn of(id: String, metadata: &fs::Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        StoredState { id, bytes: metadata.len(), modified: modified.map_or(0, |d| d.as_secs()) }
    }
}

/// The states of a model.
pub(crate) struct States {
    folder: PathBuf,
    most_bytes: u64,
    shape: ModelShape,
    fingerprint: String,
    busy: Arc<Mutex<HashSet<String>>>,
}

/// The right to continue a conversation; others get [`StatesError::Busy`] while it lives.
#[derive(Debug)]
pub(crate) struct Turn {
    id: String,
    busy: Arc<Mutex<HashSet<String>>>,
}

impl Turn {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.busy.lock().remove(&self.id);
    }
}

impl States {
    /// The states in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn open(
        folder: &Path,
        most_bytes: u64,
        shape: ModelShape,
        fingerprint: String,
    ) -> Result<Self, StatesError> {
        for owner in [StateOwner::Server, StateOwner::Client] {
            let path = folder.join(owner.folder());
            fs::create_dir_all(&path).map_err(|why| StatesError::Io { path, why })?;
        }
        let busy = Arc::default();
        Ok(States { folder: folder.to_owned(), most_bytes, shape, fingerprint, busy })
    }

    /// Begins a turn of a conversation; its state, if it has one.
    ///
    /// # Errors
    /// The name is not an id, a turn is being answered, or the file cannot be read.
    pub(crate) fn begin_turn(&self, id: &str) -> Result<(Turn, Option<ChatState>), StatesError> {
        self.path(StateOwner::Client, id)?;
        if !self.busy.lock().insert(id.to_owned()) {
            return Err(StatesError::Busy(id.to_owned()));
        }
        let turn = Turn { id: id.to_owned(), busy: Arc::clone(&self.busy) };
        match self.load(StateOwner::Client, id) {
            Ok(state) => Ok((turn, Some(state))),
            Err(StatesError::Unknown(_)) => Ok((turn, None)),
            Err(why) => Err(why),
        }
    }

    /// Reads a state.
    ///
    /// # Errors
    /// There is none, or the file is not one of this model.
    pub(crate) fn load(&self, owner: StateOwner, id: &str) -> Result<ChatState, StatesError> {
        let path = self.existing(owner, id)?;
        let (state, turns) = state_file::load_chat(&path, &self.shape, &self.fingerprint)?;
        Ok(ChatState { state, turns })
    }

    /// Writes a state. The least recently used conversations make room for it.
    ///
    /// # Errors
    /// There is no room, or the file cannot be written.
    pub(crate) fn save(&self, owner: StateOwner, id: &str, chat: &ChatState) -> Result<(), StatesError> {
        let path = self.path(owner, id)?;
        let floats: usize = chat.state.0.iter().map(|(_, data)| data.len()).sum();
        self.make_room(4 * floats as u64, &path)?;
        Ok(state_file::save_chat(&path, &chat.state, &self.shape, &self.fingerprint, &chat.turns)?)
    }

    /// Stores a state under a new id.
    ///
    /// # Errors
    /// As [`States::save`].
    pub(crate) fn add(&self, chat: &ChatState) -> Result<String, StatesError> {
        let id = new_id();
        self.save(StateOwner::Server, &id, chat)?;
        Ok(id)
    }

    /// Stores an uploaded file under a new id: a saved state or a tuned initial state.
    ///
    /// # Errors
    /// It is no state of this model, or as [`States::save`].
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<String, StatesError> {
        self.add(&self.read(bytes)?)
    }

    /// Stores an uploaded file under that id, unless it has that state already.
    ///
    /// # Errors
    /// It has another state, or as [`States::upload`].
    pub(crate) fn upload_as(&self, id: &str, bytes: &[u8]) -> Result<StoredState, StatesError> {
        let chat = self.read(bytes)?;
        match self.load(StateOwner::Server, id) {
            Ok(stored) if stored == chat => {}
            Ok(_) => return Err(StatesError::Taken(id.to_owned())),
            Err(StatesError::Unknown(_)) => self.save(StateOwner::Server, id, &chat)?,
            Err(why) => return Err(why),
        }
        let path = self.path(StateOwner::Server, id)?;
        let metadata = fs::metadata(&path).map_err(|why| StatesError::Io { path, why })?;
        Ok(StoredState::of(id.to_owned(), &metadata))
    }

    /// Number of layers of a state.
    pub(crate) fn layers(&self) -> usize {
        self.shape.layers as usize
    }

    /// The state in the bytes of a file.
    ///
    /// # Errors
    /// It is none of this model.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<ChatState, StatesError> {
        let path = self.folder.join(format!("{}.upload", new_id()));
        let written = wgoose_files::replace(&path, |file| file.write_all(bytes)).map(drop);
        let loaded = match written {
            Ok(()) => self.load_any(&path),
            Err(why) => return Err(StatesError::Io { path, why }),
        };
        fs::remove_file(&path).map_err(|why| StatesError::Io { path, why })?;
        loaded
    }

    fn load_any(&self, path: &Path) -> Result<ChatState, StatesError> {
        match state_file::kind(path)? {
            state_file::StateKind::Initial => {
                Ok(ChatState { state: initial_state::load(path, &self.shape)?, turns: Vec::new() })
            }
            state_file::StateKind::Saved => {
                let (state, turns) = state_file::load_chat(path, &self.shape, &self.fingerprint)?;
                Ok(ChatState { state, turns })
            }
        }
    }

    /// The file of a state.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn bytes(&self, id: &str) -> Result<Vec<u8>, StatesError> {
        let path = self.existing(StateOwner::Server, id)?;
        fs::read(&path).map_err(|why| StatesError::Io { path, why })
    }

    /// Deletes a state.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn delete(&self, owner: StateOwner, id: &str) -> Result<(), StatesError> {
        let path = self.existing(owner, id)?;
        fs::remove_file(&path).map_err(|why| StatesError::Io { path, why })
    }

    /// All states of an owner, the newest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn list(&self, owner: StateOwner) -> Result<Vec<StoredState>, StatesError> {
        let folder = self.folder.join(owner.folder());
        let failed = |why| StatesError::Io { path: folder.clone(), why };
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let is_state = path.extension().is_some_and(|extension| extension == EXTENSION);
            // Another request may have deleted it.
            let Some((id, metadata)) = id.filter(|_| is_state).zip(fs::metadata(&path).ok()) else { continue };
            all.push(StoredState::of(id, &metadata));
        }
        all.sort_by(|a, b| (b.modified, &a.id).cmp(&(a.modified, &b.id)));
        Ok(all)
    }

    /// Deletes the least recently used conversations until a file of that size fits.
    fn make_room(&self, bytes: u64, replaced: &Path) -> Result<(), StatesError> {
        let replaced = fs::metadata(replaced).map_or(0, |metadata| metadata.len());
        let size = |all: &[StoredState]| all.iter().map(|state| state.bytes).sum::<u64>();
        let mut conversations = self.list(StateOwner::Client)?;
        let mut used = size(&self.list(StateOwner::Server)?) + size(&conversations) - replaced;
        while used + bytes > self.most_bytes {
            let is_idle = |state: &StoredState| !self.busy.lock().contains(&state.id);
            let Some(at) = conversations.iter().rposition(is_idle) else {
                return Err(StatesError::Full { bytes, most: self.most_bytes });
            };
            let oldest = conversations.remove(at);
            used -= oldest.bytes;
            self.delete(StateOwner::Client, &oldest.id)?;
        }
        Ok(())
    }

    fn path(&self, owner: StateOwner, id: &str) -> Result<PathBuf, StatesError> {
        match (1..=LONGEST_NAME).contains(&id.len()) && id.chars().all(is_allowed) && !id.starts_with('.') {
            true => Ok(self.folder.join(owner.folder()).join(format!("{id}.{EXTENSION}"))),
            false => Err(StatesError::Name(id.to_owned())),
        }
    }

    fn existing(&self, owner: StateOwner, id: &str) -> Result<PathBuf, StatesError> {
        let path = self.path(owner, id)?;
        if path.exists() { Ok(path) } else { Err(StatesError::Unknown(id.to_owned())) }
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c)
}

/// The id of a state that is stored under the name of a file: other characters become '_'.
pub(crate) fn id_of_file(name: &str) -> String {
    let name = name.trim_start_matches('.');
    let id: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(LONGEST_NAME).collect();
    if id.is_empty() { "state".to_owned() } else { id }
}

/// An id that no state has had.
pub(crate) fn new_id() -> String {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
    format!("state-{now:x}-{:x}", IDS.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::LoraRanks;

    const SHAPE: ModelShape = ModelShape {
        layers: 1,
        width: 64,
        ffn: 64,
        head_size: 64,
        vocab: 300,
        ranks: LoraRanks { decay: 16, iclr: 16, value: 16, gate: 16 },
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };

    fn states(folder: &Path, files: u64) -> States {
        // A file has a header beside its floats.
        let bytes = files * (4 * (64 * 64 + 2 * 64) + 1024);
        States::open(folder, bytes, SHAPE, "model".to_owned()).unwrap()
    }

    fn chat() -> ChatState {
        let mut state = StateData::zero(&SHAPE);
        state.0[0].1[3] = 0.5;
        ChatState { state, turns: vec![ChatTurn { message: "Honk?".to_owned(), answer: "Honk.".to_owned() }] }
    }

    #[test]
    fn a_restarted_server_finds_the_states() {
        let folder = tempfile::tempdir().unwrap();
        let id = states(folder.path(), 9).add(&chat()).unwrap();
        let again = states(folder.path(), 9);
        assert_eq!(again.load(StateOwner::Server, &id).unwrap(), chat());
        let copy = again.upload(&again.bytes(&id).unwrap()).unwrap();
        assert_eq!(again.load(StateOwner::Server, &copy).unwrap(), chat());
        let named = again.upload_as("honk.pth", &again.bytes(&id).unwrap()).unwrap();
        assert_eq!(again.upload_as("honk.pth", &again.bytes(&id).unwrap()).unwrap(), named, "the same once more");
        let other = ChatState { turns: Vec::new(), ..chat() };
        let other = again.bytes(&again.add(&other).unwrap()).unwrap();
        assert!(matches!(again.upload_as("honk.pth", &other), Err(StatesError::Taken(_))));
        assert_eq!(again.list(StateOwner::Server).unwrap().len(), 4);
        again.delete(StateOwner::Server, &id).unwrap();
        assert!(matches!(again.load(StateOwner::Server, &id), Err(StatesError::Unknown(_))));
        assert!(matches!(again.upload(b"no state"), Err(StatesError::Refused(_))));
        let uploads = fs::read_dir(folder.path()).unwrap().filter(|file| file.as_ref().unwrap().path().is_file());
        assert_eq!(uploads.count(), 0);
    }

    #[test]
    fn names_of_files_make_ids() {
        assert_eq!(id_of_file("honk v1.pth"), "honk_v1.pth");
        assert_eq!((id_of_file("..").as_str(), id_of_file("鹅.pth").as_str()), ("state", "_.pth"));
        assert_eq!(id_of_file(&"a".repeat(90)).len(), LONGEST_NAME);
    }

    #[test]
    fn a_conversation_has_one_writer_and_old_ones_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let states = states(folder.path(), 2);
        let (turn, none) = states.begin_turn("a").unwrap();
        assert!(none.is_none() && matches!(states.begin_turn("a"), Err(StatesError::Busy(_))));
        states.save(StateOwner::Client, turn.id(), &chat()).unwrap();
        drop(turn);
        assert_eq!(states.begin_turn("a").unwrap().1, Some(chat()));
        for name in ["", "../a", "a/b", ".a", "..", &"a".repeat(65)] {
            assert!(matches!(states.begin_turn(name), Err(StatesError::Name(_))), "{name}");
        }
        let id = states.add(&chat()).unwrap();
        states.save(StateOwner::Client, "b", &chat()).unwrap();
        assert!(matches!(states.load(StateOwner::Client, "a"), Err(StatesError::Unknown(_))), "it made room");
        states.load(StateOwner::Server, &id).unwrap();
        states.delete(StateOwner::Client, "b").unwrap();
        states.add(&chat()).unwrap();
        assert!(matches!(states.add(&chat()), Err(StatesError::Full { .. })));
    }
}
