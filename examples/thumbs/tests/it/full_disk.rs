//! A database whose disk is full: it reads.

use std::sync::Arc;

use axum::http::StatusCode;
use thumbs::pool::{Kind, Pool};
use thumbs::store::{Name, Sqlite, Store, Stored, Unavailable};

use crate::support::{picture, serve};

/// What SQLite says then.
const FULL: &str = "database or disk is full";

#[derive(Debug)]
struct Full(Sqlite);

impl Store for Full {
    fn put(&self, _: &Name, _: &Stored) -> Result<(), Unavailable> {
        Err(Unavailable(FULL.to_owned()))
    }

    fn original(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.0.original(name)
    }

    fn thumbnail(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.0.thumbnail(name)
    }
}

#[tokio::test]
async fn what_is_there_is_answered_and_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("thumbs.db")).unwrap();
    let name = Name::of(&picture(1));
    store.put(&name, &Stored { original: picture(1), thumbnail: vec![1] }).unwrap();
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(Full(store))).await;
    for _ in 0..2 {
        let (status, said) = client.post(picture(2)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(said, "the database cannot do that now\n");
        let path = format!("/pictures/{}", name.as_str());
        assert_eq!(client.get(&path).await, (StatusCode::OK, picture(1).into()));
        assert_eq!(client.get("/health").await.0, StatusCode::OK, "it can be read");
    }
}
