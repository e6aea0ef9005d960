-- What an attack on the second version showed to be missing: moments, names and rules. Columns are nullable and have no
-- default, so that programs of the version before go on.

-- A moment before which a delivery in doubt is neither asked about nor sent, by anybody.
alter table sendonce_deliveries add column not_before integer;

-- How much it was when people were told, so that they are told again when it has grown; and where a fault on our side was
-- met last, so that it is over when something gets through there.
alter table sendonce_alerts add column told_size integer;
alter table sendonce_alerts add column met_at text;
