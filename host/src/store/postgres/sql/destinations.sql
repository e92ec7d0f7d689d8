-- Every destination there ever was, without the reserved one.
select id, name from {schema}outbox_destination where id > 0 order by id
