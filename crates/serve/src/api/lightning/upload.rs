//! The file in a form of `multipart/form-data`.

use crate::api::refused::Refused;
use axum::http::{HeaderMap, header};
use std::convert::Infallible;

/// An uploaded file.
#[derive(Debug)]
pub(super) struct UploadedFile {
    /// Its name, without folders.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// The only file of a form.
///
/// # Errors
/// It is no form, or has another number of files.
pub(super) async fn file(headers: &HeaderMap, body: Vec<u8>) -> Result<UploadedFile, Refused> {
    let how = "send a form with one file: multipart/form-data, as curl -F file=@state.pth does";
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| Refused::wrong(how))?;
    let whole = tokio_stream::once(Ok::<_, Infallible>(body));
    let mut form = multer::Multipart::new(whole, boundary);
    let wrong = |why: multer::Error| Refused::wrong(format!("the form cannot be read: {why}"));
    let mut found = None;
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let Some(name) = field.file_name().map(base_name) else { continue };
        let bytes = field.bytes().await.map_err(wrong)?.into();
        if found.replace(UploadedFile { name, bytes }).is_some() {
            return Err(Refused::field("file", format_args!("there are several: {how}")));
        }
    }
    match found {
        Some(UploadedFile { bytes, .. }) if bytes.is_empty() => Err(Refused::field("file", "it is empty")),
        Some(file) => Ok(file),
        None => Err(Refused::field("file", format_args!("it is missing: {how}"))),
    }
}

/// The name of a file without its folders, as systems of either kind separate them.
fn base_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<UploadedFile, Refused> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "multipart/form-data; boundary=x".parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(file(&headers, body.replace('\n', "\r\n").into_bytes()))
    }

    #[test]
    fn a_form_has_one_file() {
        let part =
            |name: &str| format!("--x\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\n\nhonk\n");
        let found =
            read(&format!("--x\nContent-Disposition: form-data; name=\"a\"\n\nb\n{}--x--\n", part("C:\\a\\s.pth")));
        let UploadedFile { name, bytes } = found.unwrap();
        assert_eq!((&name[..], &bytes[..]), ("s.pth", &b"honk"[..]));
        assert!(read(&format!("{}{}--x--\n", part("a"), part("b"))).unwrap_err().why.contains("several"));
        assert!(read("--x--\n").unwrap_err().why.contains("missing"));
        assert!(read(&part("a")).unwrap_err().why.contains("cannot be read"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let refused = runtime.block_on(file(&HeaderMap::new(), Vec::new())).unwrap_err();
        assert!(refused.why.contains("multipart/form-data"));
    }
}
