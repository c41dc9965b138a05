//! A connection to PostgreSQL for a caller that blocks, with statements that stay prepared and are sent without waiting for each.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::errors::error_during;
use super::settings::PostgresSettings;
use super::tls::LedgerTls;
use crate::ledger::rows::LedgerRow;

const CONNECTING: &str = "connecting to the ledger";
/// The time limit of everything that is sent together: a server that is slower is taken for one that is gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A value of a statement.
pub(super) type SqlValue = Arc<dyn ToSql + Sync + Send>;

/// Returns the values of a statement.
macro_rules! values {
    ($( $value:expr ),* $(,)?) => { vec![$( std::sync::Arc::new($value) as $crate::ledger::postgres::session::SqlValue ),*] };
}
pub(super) use values;

/// A statement with its values.
#[derive(Clone)]
pub(super) struct SqlRequest {
    sql: String,
    values: Vec<SqlValue>,
}

impl SqlRequest {
    pub(super) fn new(sql: impl Into<String>, values: Vec<SqlValue>) -> Self {
        Self { sql: sql.into(), values }
    }
}

/// The answer to a statement.
pub(super) struct SqlReply {
    /// The rows that it returned.
    pub rows: Vec<Row>,
    /// The number of rows that it returned or changed.
    pub count: u64,
}

/// The answer to a statement that was sent, or will be when it is first waited for.
type SentStatement = Pin<Box<dyn Future<Output = Result<SqlReply, tokio_postgres::Error>> + Send>>;

/// A connection.
pub(super) struct SqlSession {
    client: Arc<Client>,
    statements: HashMap<String, Statement>,
}

impl SqlSession {
    /// Connects, and makes sure that a commit is durable when it is answered.
    pub(super) async fn connect(settings: &PostgresSettings, application: &str) -> Result<Self> {
        let failed = |error: tokio_postgres::Error| error_during(CONNECTING, &error).at(settings.place());
        let mut config = settings.config.clone();
        config.application_name(application);
        let client = match &settings.tls {
            Some(tls) => {
                let (client, connection) = config.connect(LedgerTls(tls.clone())).await.map_err(failed)?;
                tokio::spawn(connection);
                client
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                tokio::spawn(connection);
                client
            }
        };
        let durable = "SELECT set_config('synchronous_commit', 'on', false) \
                       WHERE current_setting('synchronous_commit') = 'off'";
        client.batch_execute(durable).await.map_err(failed)?;
        Ok(Self { client: Arc::new(client), statements: HashMap::new() })
    }

    async fn prepared(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends statements together and returns their answers. The first that fails is the error.
    pub(super) async fn send(
        &mut self,
        requests: Vec<SqlRequest>,
    ) -> Result<Vec<SqlReply>, tokio_postgres::Error> {
        let mut sent: Vec<Option<SentStatement>> = Vec::with_capacity(requests.len());
        for request in requests {
            let (client, statement) = (self.client.clone(), self.prepared(&request.sql).await?);
            sent.push(Some(Box::pin(async move {
                let values = request.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
                let stream = client.query_raw(&statement, values).await?;
                let mut stream = std::pin::pin!(stream);
                let mut rows = Vec::new();
                while let Some(row) = stream.next().await {
                    rows.push(row?);
                }
                let count = stream.rows_affected().unwrap_or(rows.len() as u64);
                Ok(SqlReply { rows, count })
            })));
        }
        let mut replies: Vec<Option<Result<SqlReply, tokio_postgres::Error>>> = Vec::new();
        replies.resize_with(sent.len(), || None);
        // The first poll of each sends it: so they are sent in their order.
        poll_fn(|context| {
            let mut is_over = true;
            for (slot, reply) in sent.iter_mut().zip(&mut replies) {
                let Some(future) = slot else { continue };
                match future.as_mut().poll(context) {
                    Poll::Ready(result) => {
                        *reply = Some(result);
                        *slot = None;
                    }
                    Poll::Pending => is_over = false,
                }
            }
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        replies.into_iter().flatten().collect()
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }
}

/// A place in which sessions are used by a thread that waits for each answer.
pub(super) struct SessionThread {
    runtime: Runtime,
    settings: Arc<PostgresSettings>,
    application: String,
    session: Option<SqlSession>,
}

impl SessionThread {
    pub(super) fn new(settings: Arc<PostgresSettings>, application: String) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("starting the connection of the ledger", &error))?;
        Ok(Self { runtime, settings, application, session: None })
    }

    /// Connects anew if there is no connection, or it is lost.
    pub(super) fn connect(&mut self) -> Result<()> {
        if self.session.as_ref().is_some_and(|session| !session.client.is_closed()) {
            return Ok(());
        }
        self.session = None;
        let connected = self.runtime.block_on(SqlSession::connect(&self.settings, &self.application));
        self.session = Some(connected?);
        Ok(())
    }

    /// Gives the connection up.
    pub(super) fn disconnect(&mut self) {
        self.session = None;
    }

    /// Sends statements together and returns their answers. After an error the connection may be in a transaction that fails.
    pub(super) fn send(&mut self, during: &'static str, requests: Vec<SqlRequest>) -> Result<Vec<SqlReply>> {
        let session = self.session.as_mut().ok_or_else(|| not_connected(during))?;
        let sent = async { tokio::time::timeout(ANSWER_LIMIT, session.send(requests)).await };
        match self.runtime.block_on(sent) {
            Ok(Ok(replies)) => Ok(replies),
            Ok(Err(error)) => Err(error_during(during, &error)),
            Err(_) => {
                self.session = None;
                Err(Error::new(ErrorKind::TimedOut, during, "PostgreSQL does not answer"))
            }
        }
    }

    /// Executes a text of several statements.
    pub(super) fn batch(&mut self, during: &'static str, sql: &str) -> Result<()> {
        let session = self.session.as_mut().ok_or_else(|| not_connected(during))?;
        self.runtime.block_on(session.batch(sql)).map_err(|error| error_during(during, &error))
    }
}

fn not_connected(during: &'static str) -> Error {
    Error::new(ErrorKind::ConnectionLost, during, "the connection to PostgreSQL is lost")
}

impl LedgerRow for Row {
    fn integer(&self, index: usize) -> Result<Option<i64>> {
        self.try_get(index).map_err(|error| error_during("reading the ledger", &error))
    }

    fn text(&self, index: usize) -> Result<Option<String>> {
        self.try_get(index).map_err(|error| error_during("reading the ledger", &error))
    }

    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>> {
        self.try_get(index).map_err(|error| error_during("reading the ledger", &error))
    }
}
