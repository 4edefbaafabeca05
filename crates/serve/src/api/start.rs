//! The fields `state_id`, `session_id` and `return_state`: where a text starts, and where its state goes.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use crate::states::{ChatState, StateOwner, States, StatesError, Turn, new_id};
use axum::http::StatusCode;
use std::sync::Arc;
use wgoose_session::{ChatTurn, StateData};

/// The fields, as a request has them.
pub(super) struct StateFields {
    state_id: Option<String>,
    session_id: Option<String>,
    return_state: bool,
}

/// Where a text starts, and where its state goes.
#[derive(Default)]
pub(super) struct Start {
    pub(super) state: Option<Arc<StateData>>,
    /// The turns of the chat that made the state.
    pub(super) turns: Vec<ChatTurn>,
    pub(super) store: Option<Store>,
}

/// Where a state goes.
pub(super) struct Store {
    states: Arc<States>,
    /// The conversation that it belongs to.
    turn: Option<Turn>,
    /// The id that the client gets, if it asked for one.
    id: Option<String>,
}

impl StateFields {
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Refused> {
        Ok(StateFields {
            state_id: fields.take("state_id")?,
            session_id: fields.take("session_id")?,
            return_state: fields.take("return_state")?.unwrap_or(false),
        })
    }

    /// Reads the state.
    ///
    /// # Errors
    /// There is no folder of states, no such state, or another request is answering the conversation.
    pub(super) async fn start(self, served: &Served, texts: usize) -> Result<Start, Refused> {
        let StateFields { state_id, session_id, return_state } = self;
        let field = match (&state_id, &session_id) {
            (Some(_), Some(_)) => {
                return Err(Refused::field("session_id", "the conversation has its own state: leave state_id out"));
            }
            (Some(_), None) => "state_id",
            (None, Some(_)) => "session_id",
            (None, None) if return_state => "return_state",
            (None, None) => return Ok(Start::default()),
        };
        let states = states(served).map_err(|refused| Refused { field: Some(field.to_owned()), ..refused })?;
        if texts != 1 && field != "state_id" {
            return Err(Refused::field(field, "it is for one prompt and n = 1"));
        }
        let of_field = move |refused: Refused| Refused { field: Some(field.to_owned()), ..refused };
        blocking(move || {
            let (turn, chat) = match (state_id, session_id) {
                (Some(id), _) => (None, Some(states.load(StateOwner::Server, &id)?)),
                (None, Some(id)) => {
                    let (turn, chat) = states.begin_turn(&id)?;
                    (Some(turn), chat)
                }
                (None, None) => (None, None),
            };
            let is_stored = turn.is_some() || return_state;
            let id = return_state.then(new_id);
            let store = is_stored.then_some(Store { states, turn, id });
            let (state, turns) = chat.map_or((None, Vec::new()), |chat| (Some(Arc::new(chat.state)), chat.turns));
            Ok(Start { state, turns, store })
        })
        .await
        .map_err(of_field)
    }
}

impl Start {
    /// The start of a response, whose state is stored with that id.
    ///
    /// # Errors
    /// There is no previous response of that id.
    pub(super) async fn of_response(
        states: Option<Arc<States>>,
        previous: Option<String>,
        id: Option<String>,
    ) -> Result<Start, Refused> {
        let Some(states) = states else { return Ok(Start::default()) };
        blocking(move || {
            let chat = previous.map(|previous| states.load(StateOwner::Server, &previous)).transpose()?;
            let store = id.map(|id| Store { states, turn: None, id: Some(id) });
            let (state, turns) = chat.map_or((None, Vec::new()), |chat| (Some(Arc::new(chat.state)), chat.turns));
            Ok(Start { state, turns, store })
        })
        .await
    }
}

impl Store {
    /// Stores a state; its id, if the request asked for one.
    ///
    /// # Errors
    /// The folder has no room or cannot be written.
    pub(super) async fn store(self, chat: ChatState) -> Result<Option<String>, Refused> {
        blocking(move || {
            if let Some(turn) = &self.turn {
                self.states.save(StateOwner::Client, turn.id(), &chat)?;
            }
            if let Some(id) = &self.id {
                self.states.save(StateOwner::Server, id, &chat)?;
            }
            Ok(self.id)
        })
        .await
    }
}

/// The states of a server.
///
/// # Errors
/// It has no folder for them.
pub(super) fn states(served: &Served) -> Result<Arc<States>, Refused> {
    let none = || Refused::with(StatusCode::NOT_IMPLEMENTED, "states need a folder: start the server with --state-dir");
    served.states.clone().ok_or_else(none)
}

/// Works with files on a thread that may wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StatesError> + Send + 'static,
) -> Result<T, Refused> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, "a thread for files ended")),
    }
}
