//! The credentials that are typed with `fleet`.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::api::relationship_view::{CredentialView, SecretText};

use super::connection::read_file;
use super::question_arguments::CredentialArguments;

/// Returns the places of credentials, with the secrets of files on this machine.
///
/// # Errors
/// Those of the files, and `Usage` for one that is not UTF-8.
pub(super) fn credentials(typed: &CredentialArguments) -> Result<Vec<CredentialView>> {
    let files = typed.credentials_file.iter().map(|path| Ok(CredentialView::File { path: path.clone() }));
    let variables = typed.credentials_variable.iter();
    let variables = variables.map(|name| Ok(CredentialView::Environment { name: name.clone() }));
    let secrets = typed.credentials_secret.iter().map(|path| {
        let no_text = |_| Error::new(ErrorKind::Usage, "reading a setting", "no UTF-8");
        let text = String::from_utf8(read_file(path)?).map_err(no_text)?;
        Ok(CredentialView::Secret { value: SecretText::new(text) })
    });
    files.chain(variables).chain(secrets).collect()
}
