//! The thread that asks for the leadership, and renews it.
//!
//! A row says who leads. The leader renews it every two seconds; who sees it unchanged for six seconds of its own clock takes it,
//! with the next term. No clock of another machine is believed, and no lock is held: a lock ends with its connection, which is
//! too early if the server is restarted, and too late if a leader is stopped.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, Result};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::errors::error_during;
use super::session::{SqlReply, SqlRequest, SqlSession, SqlValue, values};
use super::settings::PostgresSettings;
use super::texts::storable;
use crate::ledger::leadership::{Leadership, LeadershipView};
use crate::ledger::rows::column;

const DURING: &str = "asking for the leadership";
/// The time between two renewals.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// The time after which a leader that does not renew is replaced.
pub(super) const TERM_WITHOUT_RENEWAL: Duration = Duration::from_secs(6);
/// The time after which a leader that could not renew takes itself for replaced: before anybody else can.
const TRUST: Duration = Duration::from_secs(5);
/// The time between two looks of one that does not lead.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The time limit of one answer of the server.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The ending of the name of the session that renews.
const SESSION_ENDING: &str = "-leader";

/// Starts the thread.
pub(super) fn start(settings: Arc<PostgresSettings>, name: &str, session: &str) -> Result<Leadership> {
    let failed = |error: std::io::Error| Error::io("starting to ask for the leadership", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let view = LeadershipView::new();
    let campaign = Campaign {
        settings,
        view: view.clone(),
        name: storable(name),
        session: session.to_owned(),
        seen: None,
        is_first_look: true,
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("leadership".to_owned())
        .spawn(move || runtime.block_on(campaign.run(stopped)))
        .map_err(failed)?;
    Ok(Leadership::of(view, stop, thread))
}

struct Campaign {
    settings: Arc<PostgresSettings>,
    view: LeadershipView,
    name: String,
    session: String,
    /// The leader's row as it was last seen to change, and when.
    seen: Option<(LeaderRow, Instant)>,
    is_first_look: bool,
}

/// The row of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeaderRow {
    term: u64,
    name: String,
    session: String,
    renewals: i64,
    has_resigned: bool,
}

impl Campaign {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                () = self.hold_office() => {}
            }
            // The connection is lost. What was seen of the leader says nothing about the time since then.
            self.seen = None;
            tokio::select! {
                _ = &mut stopped => break,
                () = sleep(LOOK_EVERY) => {}
            }
        }
        self.resign().await;
    }

    async fn connected(&self) -> Result<SqlSession> {
        let application = format!("{}{SESSION_ENDING}", self.session);
        answer(async {
            SqlSession::connect(&self.settings, &application).await.map_err(AnswerFailure::Ready)
        })
        .await
    }

    /// Asks for the leadership and renews it over one connection, until that is lost.
    async fn hold_office(&mut self) {
        let mut session = match self.connected().await {
            Ok(session) => session,
            Err(error) => return self.view.note_trouble(error),
        };
        loop {
            let asked = match self.view.last_term() {
                Some(term) => self.renew(&mut session, term).await,
                None => self.look(&mut session).await,
            };
            if let Err(error) = asked {
                return self.view.note_trouble(error);
            }
            self.view.clear_trouble();
            sleep(if self.view.last_term().is_some() { RENEW_EVERY } else { LOOK_EVERY }).await;
        }
    }

    async fn renew(&mut self, session: &mut SqlSession, term: u64) -> Result<()> {
        let asked = Instant::now();
        let sql = "UPDATE leader SET renewals = renewals + 1, renewed = clock_timestamp() WHERE term = $1 AND session = $2";
        let renewed = one(session, sql, values![term.cast_signed(), self.session.clone()]).await?;
        if renewed.count == 1 {
            self.view.lead(term, Some(asked + TRUST));
        } else {
            self.view.follow(None);
            self.seen = None;
        }
        Ok(())
    }

    /// Looks who leads, and takes the leadership if nobody does.
    async fn look(&mut self, session: &mut SqlSession) -> Result<()> {
        let sql = "SELECT term, name, session, renewals, has_resigned::int::bigint, \
                   (extract(epoch FROM clock_timestamp() - renewed) * 1000)::bigint FROM leader";
        let reply = one(session, sql, values![]).await?;
        let Some(row) = reply.rows.first() else { return Ok(()) };
        let current = LeaderRow {
            term: column::<i64>(row, 0)?.cast_unsigned(),
            name: column(row, 1)?,
            session: column(row, 2)?,
            renewals: column(row, 3)?,
            has_resigned: column(row, 4)?,
        };
        let since = match &self.seen {
            Some((seen, since)) if *seen == current => *since,
            _ => Instant::now(),
        };
        // One that is just started need not wait for a leader that was gone long before. Later, that may be the server's absence.
        let age = Duration::from_millis(u64::try_from(column::<i64>(row, 5)?).unwrap_or(0));
        let is_gone = since.elapsed() >= TERM_WITHOUT_RENEWAL
            || std::mem::take(&mut self.is_first_look) && age >= TERM_WITHOUT_RENEWAL;
        self.seen = Some((current.clone(), since));
        if current.has_resigned || is_gone || current.session == self.session {
            return self.take(session, &current).await;
        }
        self.view.follow(Some(current.name));
        Ok(())
    }

    /// Takes the leadership from one that has resigned or is silent, after its last transaction.
    async fn take(&mut self, session: &mut SqlSession, before: &LeaderRow) -> Result<()> {
        if before.session != self.session {
            // A leader that is stopped may be within a transaction. Without the right to end it, the server does so soon.
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ($1, $2) \
                       AND datname = current_database() AND pid <> pg_backend_pid()";
            let names = values![before.session.clone(), format!("{}{SESSION_ENDING}", before.session)];
            let _ = one(session, sql, names).await;
        }
        let asked = Instant::now();
        let term = before.term.saturating_add(1);
        let take = "UPDATE leader SET term = $1, name = $2, session = $3, renewals = renewals + 1, \
                    renewed = clock_timestamp(), has_resigned = false WHERE term = $4 AND renewals = $5 AND session = $6";
        let values = values![
            term.cast_signed(),
            self.name.clone(),
            self.session.clone(),
            before.term.cast_signed(),
            before.renewals,
            before.session.clone(),
        ];
        let requests = vec![
            SqlRequest::new("BEGIN", values![]),
            SqlRequest::new("SET LOCAL lock_timeout = '2s'", values![]),
            SqlRequest::new(take, values),
        ];
        let replies = answer(async { session.send(requests).await.map_err(AnswerFailure::Server) }).await?;
        if replies.last().is_none_or(|reply| reply.count != 1) {
            one(session, "ROLLBACK", values![]).await?;
            self.seen = None;
            return Ok(());
        }
        let fence = "UPDATE ledger SET term = $1, batch = 0 WHERE term < $1";
        let requests =
            vec![SqlRequest::new(fence, values![term.cast_signed()]), SqlRequest::new("COMMIT", values![])];
        answer(async { session.send(requests).await.map_err(AnswerFailure::Server) }).await?;
        self.seen = None;
        self.view.lead(term, Some(asked + TRUST));
        Ok(())
    }

    /// Lets another one lead at once.
    async fn resign(&mut self) {
        let Some(term) = self.view.last_term() else { return };
        self.view.follow(None);
        let Ok(mut session) = self.connected().await else { return };
        let sql = "UPDATE leader SET has_resigned = true WHERE term = $1 AND session = $2";
        let _ = one(&mut session, sql, values![term.cast_signed(), self.session.clone()]).await;
    }
}

/// The failure of an answer.
enum AnswerFailure {
    Server(tokio_postgres::Error),
    Ready(Error),
}

/// Waits for an answer of the server, for as long as a leader has.
async fn answer<T>(asked: impl Future<Output = Result<T, AnswerFailure>>) -> Result<T> {
    match timeout(ANSWER_LIMIT, asked).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(AnswerFailure::Server(error))) => Err(error_during(DURING, &error)),
        Ok(Err(AnswerFailure::Ready(error))) => Err(error),
        Err(_) => {
            let kind = hakobu_core::error::ErrorKind::TimedOut;
            Err(Error::new(kind, DURING, "PostgreSQL does not answer"))
        }
    }
}

async fn one(session: &mut SqlSession, sql: &str, values: Vec<SqlValue>) -> Result<SqlReply> {
    let requests = vec![SqlRequest::new(sql, values)];
    let replies = answer(async { session.send(requests).await.map_err(AnswerFailure::Server) }).await?;
    replies.into_iter().next().ok_or_else(|| crate::ledger::rows::corrupt("an answer is missing"))
}
