//! The connection to the broker, and the thread that drives it.

use std::fmt;
use std::future::Future;
use std::mem;
use std::process;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use futures_util::SinkExt as _;
use serde_json::Value;
use tokio::runtime::{self, Handle};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

use crate::address::{self, Login};
use crate::api::{self, No, Question};
use crate::error::{Error, ErrorKind};
use crate::pulls::{Pulls, Source};
use crate::queue::QueueBuilder;

/// How long the broker may take to answer, restarts included, before a call fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// So often the client looks whether the broker is there when nothing comes from it: it has gone
/// when the third look has no answer. Less than the patience, and than how long until the broker
/// takes machines for dead.
const PINGS: Duration = Duration::from_secs(5);
/// How often one looks whether there is a connection again: at first, and at least.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// How long the last handle waits for what was sent to leave the process.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A connection to a NATS server, or a cluster of them, that has JetStream.
///
/// Clones are the same connection. It has one thread, `cmwq/nats`, which runs no items. When the
/// broker goes away, the thread connects again for as long as there is a handle, a queue or a
/// machine that serves one.
///
/// A forked child has no such thread, and connects for itself: its calls on what it has inherited
/// fail with [`Local`](ErrorKind::Local), and to drop that waits for nothing.
///
/// Calls block, and may be made from items of workqueues and from any other thread, those of async
/// runtimes included; there, they block the runtime's thread. From a callback of the NATS client,
/// which is on the connection's own thread, they fail with
/// [`InvalidInput`](ErrorKind::InvalidInput).
#[derive(Clone)]
pub struct Broker {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) patience: Duration,
    pub(crate) handle: Handle,
    /// Who has the thread.
    process: u32,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How to connect; see [`Broker::builder`].
#[must_use = "a builder connects only when `connect` is called"]
#[derive(Debug)]
pub struct BrokerBuilder {
    servers: Vec<String>,
    options: ConnectOptions,
    patience: Duration,
}

impl Broker {
    /// Connects to servers, such as `"127.0.0.1:4222"` or `"nats://a,nats://b"`: whichever answers.
    /// Blocks until one does. The first may have a login, for all of them:
    /// `"nats://user:password@host"` or `"nats://token@host"`.
    ///
    /// # Errors
    /// [`Unreachable`](ErrorKind::Unreachable): none answered, or it did not let us in.
    /// [`Local`](ErrorKind::Local): the connection's thread could not be created.
    pub fn connect(servers: &str) -> Result<Self, Error> {
        Self::builder(servers).connect()
    }

    /// Describes a connection before it is made: with names and passwords, TLS, or another
    /// patience.
    pub fn builder(servers: &str) -> BrokerBuilder {
        let parted = servers.split(',').map(|server| address::part(server.trim()));
        let (servers, logins): (Vec<_>, Vec<_>) = parted.unzip();
        let options = ConnectOptions::new().ping_interval(PINGS);
        let options = options.reconnect_delay_callback(reconnect_delay);
        let options = match logins.into_iter().flatten().next() {
            None => options,
            Some(Login::User(user, password)) => options.user_and_password(user, password),
            Some(Login::Token(token)) => options.token(token),
        };
        BrokerBuilder { servers, options: options.name("cmwq-nats"), patience: PATIENCE }
    }

    /// Describes a queue before it is opened. Its name has 1 to 128 of the characters `a-z`, `A-Z`,
    /// `0-9`, `-` and `_`.
    pub fn queue(&self, name: &str) -> QueueBuilder {
        QueueBuilder::new(self.clone(), name)
    }

    /// Asks the broker; see [`api::ask`].
    pub(crate) fn ask(&self, what: &str, question: Question) -> Result<Result<Value, No>, Error> {
        let (client, patience, what) =
            (self.inner.client.clone(), self.inner.patience, what.to_owned());
        self.wait(async move { api::ask(&client, &what, question, patience).await })?
    }

    /// A way to ask for the messages of a consumer. Who waits for `has_news` hears when that comes
    /// to nothing.
    pub(crate) fn pulls(
        &self,
        source: Source,
        has_news: &Arc<Notify>,
    ) -> Result<Arc<Pulls>, Error> {
        let (client, has_news) = (self.inner.client.clone(), has_news.clone());
        let pulls = self.wait(async move { Pulls::new(client, source, has_news).await })?;
        let pulls = pulls.map_err(|error| {
            Error::new(ErrorKind::Unreachable, format!("the broker cannot be asked: {error}"))
        })?;
        Ok(Arc::new(pulls))
    }

    /// Runs a future on the connection's thread and blocks the caller until it is done. Fails in a
    /// forked child, and on that thread.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.inner.check_process()?;
        if self.inner.is_on_thread() {
            let text = "a callback of the NATS client runs on the connection's thread, which a \
                        call would wait for: make the call on another thread";
            return Err(Error::invalid(text));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.inner.handle.spawn(async move {
            let _ = sender.send(future.await);
        });
        // The thread lives as long as there is a `Broker`, such as this one.
        Ok(cmwq::blocking(|| receiver.recv()).expect("the connection's thread panicked"))
    }
}

/// A forked child keeps what it has inherited: the threads to which the parts belong are not there,
/// may have held their locks as it was forked, and nobody would do what the end of the parts asks
/// for.
impl Drop for Broker {
    fn drop(&mut self) {
        if self.inner.check_process().is_err() {
            mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Inner {
    /// Whether the caller is the connection's thread, which a callback of the client is on.
    pub(crate) fn is_on_thread(&self) -> bool {
        let own = self.thread.as_ref().map(|thread| thread.thread().id());
        own == Some(thread::current().id())
    }

    /// Fails in a forked child.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process == process::id() {
            return Ok(());
        }
        let text = "this process was forked from the one that has connected, and has no thread for \
                    that connection: call `Broker::connect` in the child";
        Err(Error::new(ErrorKind::Local, text))
    }
}

impl BrokerBuilder {
    /// All that the NATS client can be told: user and password, credentials, certificates. Replaces
    /// what was set before, also by a login in an address; the delay between two tries to connect
    /// again is then the client's, too, and so is `ping_interval`. Set that to some seconds: a
    /// broker whose host is lost, so that no word of its end comes, is missed after three of them,
    /// 15 s here and three minutes by the client's own. Until then calls wait for it in vain.
    pub fn options(mut self, options: ConnectOptions) -> Self {
        self.options = options;
        self
    }

    /// How long a call waits for the broker, over restarts, before it fails with
    /// [`Unreachable`](ErrorKind::Unreachable). 30 s unless said otherwise; with [`Duration::MAX`]
    /// it waits for ever, as machines that serve a queue do.
    ///
    /// While there is no connection nothing is sent, and what failed for want of one is not done
    /// later. Where there is one, a question is waited for for 2 s, also with less patience.
    ///
    /// A question whose answer was lost is asked again. The broker knows a repetition for two
    /// minutes: who has more patience may queue an item twice, with one
    /// [`id`](crate::Item::id), if it was done meanwhile.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects, see [`Broker::connect`].
    ///
    /// # Errors
    /// As [`Broker::connect`].
    pub fn connect(self) -> Result<Broker, Error> {
        let local = |error: std::io::Error| {
            Error::new(
                ErrorKind::Local,
                format!(
                    "the connection's thread could not be made: {error}; raise the limit of threads"
                ),
            )
        };
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("cmwq/nats".to_owned())
            .spawn(move || {
                // Here, since a runtime that the caller drops, as where there is no thread, panics
                // in a task of another one.
                let built = runtime::Builder::new_current_thread().enable_all().build();
                let runtime = match built {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(sender.send(Err(error))),
                };
                let _ = sender.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
                // Not for what blocks, as a name that is looked up, in vain.
                runtime.shutdown_background();
            })
            .map_err(local)?;
        let built = cmwq::blocking(|| receiver.recv()).expect("the connection's thread panicked");
        let handle = built.map_err(local)?;

        let (sender, receiver) = mpsc::sync_channel(1);
        let Self { servers, options, patience } = self;
        let shown = servers.join(",");
        handle.spawn(async move {
            let _ = sender.send(options.connect(servers).await);
        });
        // The client panics where an address or a server asks for TLS, and it has none.
        let connected = cmwq::blocking(|| receiver.recv()).map_err(|_panicked| {
            Error::new(
                ErrorKind::Unreachable,
                format!(
                    "no connection to the broker at {shown}: the NATS client panicked; if TLS is \
                     wanted there, build with the feature `tls` of cmwq-nats"
                ),
            )
        })?;
        let client = connected.map_err(|error| {
            let hint = match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    "say who you are in the address, as nats://USER:PASSWORD@HOST, or by \
                     BrokerBuilder::options"
                }
                _ => "is nats-server running there, with -js?",
            };
            Error::new(
                ErrorKind::Unreachable,
                format!("no connection to the broker at {shown}: {error}; {hint}"),
            )
        })?;
        let (stop, thread) = (Some(stop), Some(thread));
        let inner = Inner { client, patience, handle, process: process::id(), stop, thread };
        Ok(Broker { inner: Arc::new(inner) })
    }
}

/// 20 ms after the first failure, doubling up to a second.
fn reconnect_delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).saturating_sub(1).min(6);
    Duration::from_millis(20 << doublings).min(Duration::from_secs(1))
}

/// Waits until there is a connection: what is sent without one is sent later, when the one who
/// sent it may not want it any more. `false`: there will be none, since the client has ended.
///
/// Each item that a machine has waits so: less and less often, so that many of them do not keep the
/// thread from connecting.
pub(crate) async fn connected(client: &Client) -> bool {
    let mut pause = LOOKS.0;
    while !has_ended(client) {
        if client.connection_state() == State::Connected {
            return true;
        }
        sleep(pause).await;
        pause = (2 * pause).min(LOOKS.1);
    }
    false
}

/// Whether the client's task has ended: it has panicked, or was told to try to connect so many
/// times only. The state of the connection stays as it was then; what is sent is refused.
pub(crate) fn has_ended(client: &Client) -> bool {
    // The place that is reserved here, if there is one, goes with the clone.
    let polled = client.clone().poll_ready_unpin(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Err(_)))
}

/// What is said then.
pub(crate) const ENDED: &str = "the NATS client has ended, and this connection with it: it \
                                panics where a header of a message has a lone carriage return \
                                in it, or where a server that it connects to again wants TLS and \
                                the feature `tls` is off; or was told to connect so many times \
                                only. Remove such a message from its stream, or build with TLS, \
                                and connect anew, by `Broker::connect`";

impl Drop for Inner {
    fn drop(&mut self) {
        let is_on_thread = self.is_on_thread();
        let (client, thread) = (self.client.clone(), self.thread.take());
        let stop = self.stop.take();
        self.handle.spawn(async move {
            // Acknowledgements that are on their way.
            let _ = timeout(LAST_WORDS, client.flush()).await;
            drop(stop);
        });
        if let Some(thread) = thread.filter(|_| !is_on_thread) {
            let _ = cmwq::blocking(|| thread.join());
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        f.debug_struct("Broker")
            .field("state", &inner.client.connection_state())
            .field("patience", &inner.patience)
            .finish_non_exhaustive()
    }
}
