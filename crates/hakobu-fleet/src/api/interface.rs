//! The interface of a control plane as a thread of this process, from its start to its end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::server::serve;
use super::state::{ApiSettings, ApiState};
use crate::api_token::ApiToken;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::control_loop::ControlHandle;
use crate::fleet_clock::FleetClock;
use crate::run_request::RequestReader;
use crate::tls_listener::{TlsCertificate, TlsListener, TlsListenerLimits, may_do_without_tls};
use crate::token::{NewToken, TokenRole};

/// The operation that errors name.
const STARTING: &str = "serving the interface of the control plane";
/// The time for which the token of the start is valid, in milliseconds.
const FIRST_TOKEN_MS: u64 = 3_600_000;
/// The label of the token of the start.
const FIRST_TOKEN: &str = "start of the control plane";

/// The address of an interface, and how it is reached.
#[derive(Clone, Debug)]
pub struct InterfaceAddress {
    /// The address.
    pub listen: SocketAddr,
    /// The files of the certificate chain and of the key, for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Names of this host that requests may use, beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// An interface that is served.
pub struct FleetInterface {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FleetInterface {
    /// Begins to serve. Notices go to the observer.
    ///
    /// # Errors
    /// `Refused` for an address beyond this machine without TLS; those of the files and of listening.
    pub fn start(
        address: InterfaceAddress,
        control: ControlHandle,
        (clock, reader): (Arc<dyn FleetClock>, Arc<dyn RequestReader>),
        observer: Arc<dyn Observer + Send + Sync>,
    ) -> Result<Self> {
        let InterfaceAddress { listen, tls, hosts } = address;
        let at = |error: Error| error.at(listen.to_string());
        if tls.is_none() && !may_do_without_tls(&listen) {
            let words = "without TLS, everybody on the way could read tokens";
            return Err(at(Error::new(ErrorKind::Refused, STARTING, words))
                .hint("add --tls-certificate and --tls-key, or listen on 127.0.0.1"));
        }
        let certificate =
            tls.map(|(certificate, key)| TlsCertificate::load(&certificate, &key)).transpose()?;
        let io = |error: std::io::Error| at(Error::io(STARTING, &error));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(io)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(io)?;
        let local = listener.local_addr().map_err(io)?;
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let host = hosts.first().map_or_else(|| local.to_string(), |host| format!("{host}:{}", local.port()));
        let settings = ApiSettings { is_tls: certificate.is_some(), hosts };
        let state = Arc::new(ApiState::new(settings, control, clock, reader));
        let (stop, asked) = oneshot::channel();
        let notices = observer.clone();
        let serving = move || {
            let stopped = async {
                let _is_dropped = asked.await;
            };
            let served = runtime.block_on(async {
                match certificate {
                    None => serve(listener, state, stopped).await,
                    Some(certificate) => {
                        let limits = TlsListenerLimits::default();
                        let failed = move |error: Error| {
                            notices.event(Event::Notice { words: error.to_string() });
                        };
                        let listener = TlsListener::new(listener, Arc::new(certificate), limits, failed);
                        serve(listener.map_err(|error| Error::io(STARTING, &error))?, state, stopped).await
                    }
                }
            });
            if let Err(error) = served {
                observer.event(Event::Notice { words: error.to_string() });
            }
        };
        let thread = std::thread::Builder::new().name("interface".to_owned()).spawn(serving);
        let thread = thread.map_err(|error| Error::io(STARTING, &error))?;
        Ok(Self { url: format!("{scheme}://{host}/"), stop: Some(stop), thread: Some(thread) })
    }

    /// Returns its address.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for FleetInterface {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _has_panicked = thread.join();
        }
    }
}

/// Makes a token that signs in once as an admin, within an hour. Those of earlier starts are not valid any more.
///
/// # Errors
/// Those of the ledger.
pub fn first_token(control: &ControlHandle, clock: &dyn FleetClock) -> Result<String> {
    let tokens = control.ask(|leader| leader.ledger().tokens())??;
    for record in
        tokens.iter().filter(|record| record.token.is_single_use && record.token.label == FIRST_TOKEN)
    {
        control.apply(LedgerChange::RevokeToken(record.id))?;
    }
    let secret = ApiToken::generate()?;
    let created = clock.moment();
    let token = NewToken {
        hash: secret.hash(),
        label: FIRST_TOKEN.to_owned(),
        role: TokenRole::Admin,
        created,
        expires: Some(created.plus_ms(FIRST_TOKEN_MS)),
        is_single_use: true,
    };
    match control.apply(LedgerChange::AddToken(token))? {
        LedgerAnswer::TokenAdded(_) => Ok(String::from_utf8_lossy(secret.text().expose()).into_owned()),
        _ => Err(Error::new(ErrorKind::Io, "making a token", "the ledger refuses it")),
    }
}
