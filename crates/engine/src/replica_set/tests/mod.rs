mod work;
