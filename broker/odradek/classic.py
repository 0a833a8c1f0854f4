"""The clients that Kafka's documents describe: Producer, SimpleConsumer, ConsumerConnector.

The names here block the thread that calls them; `odradek.classic.aio` has them for asyncio. docs/clients.md explains.
A name that is imported as itself is one that this module exports (PEP 484).
"""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.client.classic import aio as aio
from odradek.client.classic.blocking_connector import (
    Consumer as Consumer,
    ConsumerConnector as ConsumerConnector,
)
from odradek.client.classic.blocking_producer import (
    AsyncProducer as AsyncProducer,
    DefaultEventHandler as DefaultEventHandler,
    Producer as Producer,
    SyncProducer as SyncProducer,
)
from odradek.client.classic.blocking_simple_consumer import SimpleConsumer as SimpleConsumer
from odradek.client.classic.errors import (
    ConsumerRebalanceFailedException as ConsumerRebalanceFailedException,
    ConsumerTimeoutException as ConsumerTimeoutException,
    FailedToSendMessageException as FailedToSendMessageException,
    InvalidConfigException as InvalidConfigException,
    InvalidPartitionException as InvalidPartitionException,
    MessageSizeTooLargeException as MessageSizeTooLargeException,
    MessageStreamsExistException as MessageStreamsExistException,
    NoBrokersForPartitionException as NoBrokersForPartitionException,
    OutOfRangeException as OutOfRangeException,
    QueueClosedException as QueueClosedException,
    QueueFullException as QueueFullException,
)
from odradek.client.classic.message_sets import (
    ByteBufferMessageSet as ByteBufferMessageSet,
    MessageAndOffset as MessageAndOffset,
)
from odradek.client.classic.messages import (
    CallbackHandler as CallbackHandler,
    Decoder as Decoder,
    DefaultDecoder as DefaultDecoder,
    DefaultEncoder as DefaultEncoder,
    Encoder as Encoder,
    EventHandler as EventHandler,
    HashPartitioner as HashPartitioner,
    KeyedMessage as KeyedMessage,
    Message as Message,
    MessageSet as MessageSet,
    Partitioner as Partitioner,
    ProducerData as ProducerData,
    RandomPartitioner as RandomPartitioner,
    StringDecoder as StringDecoder,
    StringEncoder as StringEncoder,
)
from odradek.client.classic.registrations import (
    Blacklist as Blacklist,
    TopicFilter as TopicFilter,
    Whitelist as Whitelist,
)
from odradek.client.classic.simple_consumer import (
    EARLIEST_TIME as EARLIEST_TIME,
    LATEST_TIME as LATEST_TIME,
    FetchRequest as FetchRequest,
)
from odradek.client.classic.streams import (
    KafkaStream as KafkaStream,
    MessageAndMetadata as MessageAndMetadata,
    Progress as Progress,
)
from odradek.foundation.ids import TopicPartition as TopicPartition
