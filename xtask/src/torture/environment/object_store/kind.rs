//! The object stores that histories use, and how each is started and named.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The access key, the secret and the bucket of versitygw.
pub(super) const ACCESS_KEY: &str = "torture";
pub(super) const SECRET_KEY: &str = "torture-secret";
pub(super) const BUCKET: &str = "torture";
/// The account of every emulator of Azure, its key, and a shared access signature with all rights until 2099.
pub(super) const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
pub(super) const SIGNATURE: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp\
    &sig=jlSI%2B5DohmjtlB2oCr2Vhd9u7l%2F%2FvB9E8D7vhfmKGX4%3D";

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TortureStoreKind {
    /// versitygw, with the interface of S3. It keeps objects as files.
    Versitygw,
    /// Azurite, with the interface of Azure Blob Storage.
    Azurite,
    /// fake-gcs-server, with the interface of Google Cloud Storage.
    FakeGcs,
}

impl TortureStoreKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Versitygw, Self::Azurite, Self::FakeGcs];

    /// Returns the name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Versitygw => "versitygw",
            Self::Azurite => "azurite",
            Self::FakeGcs => "fakegcs",
        }
    }

    /// Returns the kind with a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the beginning of a location in this store, up to the prefix.
    #[must_use]
    pub fn location(self) -> String {
        let scheme = match self {
            Self::Versitygw => "s3",
            Self::Azurite => "az",
            Self::FakeGcs => "gs",
        };
        format!("{scheme}://{BUCKET}")
    }

    /// Returns the program and the arguments of a server. `shown_port` is the port that clients use.
    pub(super) fn command(
        self,
        data: &Path,
        port: u16,
        shown_port: u16,
    ) -> anyhow::Result<(PathBuf, Vec<OsString>)> {
        let port_text = port.to_string();
        let (program, words): (&str, Vec<OsString>) = match self {
            Self::Versitygw => {
                let address = format!("127.0.0.1:{port}");
                let words = ["--port", &address, "--region", "us-east-1", "--quiet", "posix"];
                let all = words.into_iter().map(OsString::from).chain([data.into()]);
                ("versitygw-1.8.0/versitygw", all.collect())
            }
            Self::Azurite => {
                let main = installed("azurite-3.37.0/node_modules/azurite/dist/src/blob/main.js")?;
                let words = ["--blobHost", "127.0.0.1", "--blobPort", &port_text, "--inMemoryPersistence"];
                let more = ["--skipApiVersionCheck", "--silent"];
                let all = words.into_iter().chain(more).map(OsString::from);
                ("azurite-3.37.0/node", [OsString::from(main)].into_iter().chain(all).collect())
            }
            Self::FakeGcs => {
                let shown = format!("127.0.0.1:{shown_port}");
                let url = format!("http://{shown}");
                let words =
                    ["-scheme", "http", "-host", "127.0.0.1", "-port", &port_text, "-backend", "memory"];
                let more = ["-public-host", &shown, "-external-url", &url];
                let all = words.into_iter().chain(more).map(OsString::from);
                ("fake-gcs-server-0.1.1/fake-gcs-server", all.collect())
            }
        };
        Ok((installed(program)?, words))
    }

    /// Returns the variables with which hakobu finds the store on a port. With `signature`, requests to Azure are signed
    /// once and for all, so that the proxy may change them.
    pub(super) fn environment(self, port: u16, signature: bool) -> Vec<(&'static str, String)> {
        let address = format!("http://127.0.0.1:{port}");
        match self {
            Self::Versitygw => vec![
                ("AWS_ENDPOINT_URL_S3", address),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ],
            Self::Azurite => {
                let credentials = match signature {
                    true => format!("SharedAccessSignature={SIGNATURE}"),
                    false => format!("AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY}"),
                };
                let text = format!("BlobEndpoint={address}/{ACCOUNT};{credentials}");
                vec![("AZURE_STORAGE_CONNECTION_STRING", text)]
            }
            Self::FakeGcs => vec![("STORAGE_EMULATOR_HOST", address)],
        }
    }
}

/// Returns the path of a program that `need_stores` of `scripts/lib.sh` has installed.
pub(in super::super) fn installed(path: &str) -> anyhow::Result<PathBuf> {
    let folder = match (std::env::var_os("HAKOBU_STORES"), std::env::var_os("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, home) => PathBuf::from(home.context("HOME is not set")?).join(".cache/hakobu-test-stores"),
    };
    let program = folder.join(path);
    if !program.exists() {
        bail!("{} is missing: bash -c '. scripts/lib.sh; need_stores'", program.display());
    }
    Ok(program)
}
