public class Receipt {
    public String number() {
        return "7";
    }

    public String id() {
        return "r-7";
    }
}
