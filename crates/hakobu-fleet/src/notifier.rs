//! Delivers the notifications of the leader: each to its recipients, a bounded number at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::audit::{AUDIT_TEXT_BYTES_MAX, AuditEntry};
use crate::change::LedgerChange;
use crate::control_loop::ControlHandle;
use crate::fleet_clock::FleetClock;
use crate::key_file::SealingKeys;
use crate::limits::shortened;
use crate::notification::Notification;
use crate::notification::delivery::DeliveryLimits;
use crate::notification::mail::{MailSender, MailServerSetting};
use crate::notification::webhook::WebhookSender;
use crate::notification_queue::{QueuedNotification, QueuedNotifications};
use crate::notification_setting::WebhookSetting;
use crate::relationship::CredentialReference;
use crate::secret_bytes::SecretBytes;
use crate::secrets::{SecretPlaces, read_secret};

/// The purpose for which the secrets of webhooks are sealed.
pub const WEBHOOK_SECRET_PURPOSE: &str = "notification webhook";
/// The purpose for which the password of the mail server is sealed.
pub const MAIL_SECRET_PURPOSE: &str = "notification mail";
/// The beginning of the names of variables that a setting of notifications may name.
pub const SECRET_VARIABLES: &str = "HAKOBU_SECRET_*";
/// The maximum number of deliveries under way.
const DELIVERIES_MAX: usize = 256;
/// The time that deliveries have when the service ends.
const LAST_TIME: Duration = Duration::from_secs(5);

/// The settings of deliveries.
#[derive(Clone, Debug)]
pub struct NotifierSettings {
    /// The places of secrets.
    pub places: SecretPlaces,
    /// The keys of sealed secrets.
    pub keys: Arc<SealingKeys>,
    /// The mail server.
    pub mail: Option<MailServerSetting>,
    /// The limits of each delivery.
    pub limits: DeliveryLimits,
}

/// Delivers notifications.
pub struct Notifier {
    settings: NotifierSettings,
    webhooks: WebhookSender,
    mail: Option<MailSender>,
    /// The address of the page.
    page: String,
    clock: Arc<dyn FleetClock>,
    observer: Arc<dyn Observer + Send + Sync>,
}

/// A delivery that has ended, with the notification that it was about.
struct EndedDelivery {
    notification: Arc<Notification>,
    error: Option<Error>,
    /// True if it was the last one of this notification.
    is_last: bool,
}

/// The deliveries of one notification.
#[derive(Clone)]
struct DeliveryGroup {
    notification: Arc<Notification>,
    /// The number of those that have not ended.
    left: Arc<AtomicUsize>,
    ended: mpsc::UnboundedSender<EndedDelivery>,
}

impl DeliveryGroup {
    /// Notes the end of one.
    fn end(self, result: Result<()>) {
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        let ended = EndedDelivery { notification: self.notification, error: result.err(), is_last };
        let _nobody_waits = self.ended.send(ended);
    }
}

impl Notifier {
    /// Creates one. The password of the mail server is read now.
    ///
    /// # Errors
    /// Those of the mail server's setting and of its password.
    pub fn new(
        settings: NotifierSettings,
        page: String,
        clock: Arc<dyn FleetClock>,
        observer: Arc<dyn Observer + Send + Sync>,
    ) -> Result<Self> {
        let webhooks = WebhookSender::new(settings.limits.clone())?;
        let mail = settings.mail.as_ref().map(|setting| {
            // Who starts the service names it, so that it may be anywhere.
            let password = setting.password.as_ref();
            let read = |reference| read_secret(reference, MAIL_SECRET_PURPOSE, Some(&settings.keys));
            let password = password.map(read).transpose()?;
            MailSender::new(setting, password.as_ref(), None, settings.limits.clone())
        });
        let mail = mail.transpose()?;
        Ok(Self { settings, webhooks, mail, page, clock, observer })
    }

    /// Delivers notifications until nobody puts any more, within a `LocalSet`. Those under way then have some time.
    pub async fn run(self: Arc<Self>, mut queued: QueuedNotifications, control: ControlHandle) {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let mut deliveries = JoinSet::new();
        loop {
            // An end is told even if nothing more comes.
            let next = tokio::select! {
                next = queued.next(), if deliveries.len() < DELIVERIES_MAX => next,
                Some(end) = ends.recv() => {
                    self.tell_end(&end, &control);
                    continue;
                }
                Some(_) = deliveries.join_next(), if !deliveries.is_empty() => continue,
            };
            let Some(next) = next else { break };
            self.clone().begin(next, &mut deliveries, &ended);
            self.tell_dropped(queued.take_dropped(), &control);
        }
        let all = async { while deliveries.join_next().await.is_some() {} };
        let _is_over = tokio::time::timeout(LAST_TIME, all).await;
        while let Ok(end) = ends.try_recv() {
            self.tell_end(&end, &control);
        }
        if !deliveries.is_empty() {
            self.tell(format!(
                "{} notifications wait for the next start, as the service ends",
                deliveries.len()
            ));
        }
    }

    fn begin(
        self: Arc<Self>,
        queued: QueuedNotification,
        deliveries: &mut JoinSet<()>,
        ended: &mpsc::UnboundedSender<EndedDelivery>,
    ) {
        let QueuedNotification { recipients, mut notification } = queued;
        let run = notification.run.as_ref().map(|run| format!("{}/#/runs/{}", self.page, run.number));
        notification.link = Some(run.unwrap_or_else(|| format!("{}/#/brokers", self.page)));
        let count = recipients.webhooks.len() + recipients.mail_to.len();
        let group = DeliveryGroup {
            notification: Arc::new(notification),
            left: Arc::new(AtomicUsize::new(count.max(1))),
            ended: ended.clone(),
        };
        if count == 0 {
            return group.end(Ok(()));
        }
        for webhook in recipients.webhooks {
            let (this, group) = (self.clone(), group.clone());
            deliveries.spawn_local(async move {
                let result = this.call_webhook(webhook, &group.notification).await;
                group.end(result);
            });
        }
        for address in recipients.mail_to {
            let (this, group) = (self.clone(), group.clone());
            deliveries.spawn_local(async move {
                let result = this.send_mail(&address, &group.notification).await;
                group.end(result);
            });
        }
    }

    async fn call_webhook(
        self: &Arc<Self>,
        webhook: WebhookSetting,
        notification: &Notification,
    ) -> Result<()> {
        let WebhookSetting { url, secret } = webhook;
        let secret = match secret {
            Some(reference) => Some(self.clone().secret(reference).await?),
            None => None,
        };
        let seconds = || self.clock.moment().get() / 1000;
        self.webhooks.send(&url, secret.as_ref(), notification, seconds).await
    }

    /// Reads a secret, off the threads that deliver.
    async fn secret(self: Arc<Self>, reference: CredentialReference) -> Result<SecretBytes> {
        let read = move || {
            let NotifierSettings { places, keys, .. } = &self.settings;
            places.read(&reference, WEBHOOK_SECRET_PURPOSE, Some(keys))
        };
        tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "reading the secret", "the thread has ended")))
    }

    async fn send_mail(&self, address: &str, notification: &Notification) -> Result<()> {
        let Some(mail) = &self.mail else {
            let error = Error::new(ErrorKind::Usage, "sending a notification", "there is no mail server");
            return Err(error.at(address).hint("start hakobu serve with --mail-settings FILE"));
        };
        mail.send(address, notification).await
    }

    fn tell(&self, words: String) {
        self.observer.event(Event::Notice { words });
    }

    /// Tells of a delivery that failed, and has the ledger know when all of a run have ended.
    fn tell_end(&self, end: &EndedDelivery, control: &ControlHandle) {
        let EndedDelivery { notification, error, is_last } = end;
        if let Some(error) = error {
            self.tell(error.to_string());
            let about = notification.relationship.as_deref().or(notification.broker.as_deref());
            self.note(about.unwrap_or_default(), &error.to_string(), control);
        }
        if let Some(run) = notification.run.as_ref().filter(|_| *is_last) {
            let change = LedgerChange::TellRun(run.number);
            let _has_ended = control.spawn(move |leader| leader.change(change, Box::new(drop)));
        }
    }

    fn tell_dropped(&self, count: u64, control: &ControlHandle) {
        if count > 0 {
            let words = format!("{count} notifications are not delivered: too many waited");
            self.tell(words.clone());
            self.note("", &words, control);
        }
    }

    /// Writes a failure to the audit log. It waits for nothing: a ledger that does not work is told of elsewhere.
    fn note(&self, about: &str, words: &str, control: &ControlHandle) {
        let entry = AuditEntry {
            when: self.clock.moment(),
            who: "hakobu".to_owned(),
            action: "notification.failed".to_owned(),
            object: about.as_bytes().to_vec(),
            detail: shortened(words, AUDIT_TEXT_BYTES_MAX),
        };
        let change = LedgerChange::Audited(Box::new(entry), Box::new(LedgerChange::Nothing));
        let _has_ended = control.spawn(move |leader| leader.change(change, Box::new(drop)));
    }
}
