//! Lines typed before, also in earlier chats: a file of the user's, which no other may read.

use rustyline::history::{FileHistory, History};
use rustyline::{Config, Editor, Helper};
use std::path::{Path, PathBuf};

/// Most lines that are kept.
const LINES: usize = 1000;

/// Where lines are kept between chats; nowhere if the user wants none, or has no folder.
pub(super) struct LineHistory(Option<PathBuf>);

impl LineHistory {
    /// In this folder, which need not exist.
    pub(super) fn in_folder(folder: Option<PathBuf>) -> Self {
        LineHistory(folder.map(|folder| folder.join("chat-history")))
    }

    /// An editor with the lines that were kept; a line that begins with a blank is not kept, as in shells. A file that cannot be
    /// read is said, and is left alone from then on.
    pub(super) fn editor<H: Helper>(&mut self) -> rustyline::Result<Editor<H, FileHistory>> {
        let config = Config::builder().auto_add_history(true).history_ignore_space(true);
        let config = config.max_history_size(LINES)?.build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history)?;
        let Some(path) = &self.0 else { return Ok(editor) };
        let opened = match path.exists() {
            true => editor.load_history(path),
            false => make_folder(path).map_err(Into::into),
        };
        if let Err(why) = opened {
            self.give_up(&why);
        }
        Ok(editor)
    }

    /// Keeps the lines that are new; other chats may do so meanwhile.
    pub(super) fn keep(&mut self, history: &mut FileHistory) {
        let Some(path) = &self.0 else { return };
        if let Err(why) = history.append(path) {
            self.give_up(&why);
        }
    }

    fn give_up(&mut self, why: &dyn std::error::Error) {
        if let Some(path) = self.0.take() {
            eprintln!("wgoose: lines are not kept in {}: {why}", path.display());
        }
    }
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::SearchDirection;

    fn lines(history: &FileHistory) -> Vec<String> {
        let line = |i| history.get(i, SearchDirection::Forward).unwrap().unwrap().entry.into_owned();
        (0..history.len()).map(line).collect()
    }

    #[test]
    fn lines_come_back_in_another_chat() {
        let folder = tempfile::tempdir().unwrap();
        let place = || LineHistory::in_folder(Some(folder.path().join("new/data")));
        let chat = |said: &[&str]| {
            let mut kept = place();
            let mut editor = kept.editor::<()>().unwrap();
            let before = lines(editor.history());
            for line in said {
                editor.add_history_entry(*line).unwrap();
                kept.keep(editor.history_mut());
            }
            before
        };
        assert_eq!(chat(&["one", "two\nlines", " secret", "back\\slash"]), Vec::<String>::new());
        assert_eq!(chat(&["three"]), ["one", "two\nlines", "back\\slash"]);
        assert_eq!(chat(&[]), ["one", "two\nlines", "back\\slash", "three"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = folder.path().join("new/data/chat-history");
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat-history");
        std::fs::create_dir(&file).unwrap();
        let mut kept = LineHistory::in_folder(Some(folder.path().into()));
        drop(kept.editor::<()>().unwrap());
        assert!(kept.0.is_none() && file.is_dir());
        drop(LineHistory::in_folder(None).editor::<()>().unwrap());
    }
}
